// node openai.mjs URL QUESTION: what OpenAI's JavaScript client makes of the service, as JSON.
import OpenAI from "openai";

const [url, question] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: question }];
const told = {};

told.models = [];
for await (const model of client.models.list()) told.models.push(model.id);

const whole = await client.chat.completions.create({ model: "self_crag", messages });
told.whole = whole.choices[0].message;

const stream = client.chat.completions.stream({
  model: "self_crag",
  messages,
  stream_options: { include_usage: true },
});
told.reasoning = "";
told.annotations = [];
for await (const chunk of stream) {
  const delta = chunk.choices[0]?.delta ?? {};
  told.reasoning += delta.reasoning_content ?? "";
  told.annotations.push(...(delta.annotations ?? []));
}
const final = await stream.finalChatCompletion();
told.streamed = final.choices[0].message.content;
told.finish_reason = final.choices[0].finish_reason;
told.usage = final.usage;

try {
  await client.chat.completions.create({ model: "gpt-4", messages });
} catch (error) {
  told.error = { name: error.constructor.name, status: error.status, code: error.code };
}

console.log(JSON.stringify(told));
