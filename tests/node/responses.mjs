// node responses.mjs URL QUESTION [stop]: OpenAI's JavaScript client at /v1/responses and
// /v1/embeddings.
import OpenAI from "openai";

const [url, question, stop] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
const asked = { model: "self_crag", input: question };
const told = {};

const stream = client.responses.stream(asked);
told.types = [];
for await (const event of stream) {
  told.types.push(event.type);
  if (stop && event.type === "response.reasoning_summary_text.delta") break;
}
if (stop) {
  const started = await client.responses.create({ ...asked, background: true });
  told.started = started.status;
  told.cancelled = (await client.responses.cancel(started.id)).status;
} else {
  told.final = await stream.finalResponse();
  told.found = await client.responses.retrieve(told.final.id);
  told.whole = await client.responses.create({ ...asked, previous_response_id: told.final.id });
  await client.responses.delete(told.final.id);
  told.gone = await client.responses.retrieve(told.final.id).catch((error) => error.status);
  const { data } = await client.embeddings.create({ model: "embedder", input: [question, "a"] });
  told.dimensions = data.map(({ embedding }) => embedding.length);
}
console.log(JSON.stringify(told));
