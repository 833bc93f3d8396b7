// node ai_openai.mjs PACKAGE PROVIDER URL QUESTION [whole|stop]: the AI SDK's own OpenAI provider,
// whose default is the Responses API.
const [name, provider, url, question, mode] = process.argv.slice(2);
const { embedMany, generateText, streamText } = await import(name);
const { createOpenAI } = await import(provider);
const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
const settings = { model: openai("self_crag"), maxRetries: 0 };
const told = { errors: [], sources: [], text: "", reasoning: "" };
const left = new AbortController();

const stream = streamText({
  ...settings,
  prompt: question,
  abortSignal: left.signal,
  onError: ({ error }) => told.errors.push(error.message ?? JSON.stringify(error)),
});
for await (const part of stream.fullStream) {
  if (part.type === "text-delta") told.text += part.text;
  if (part.type === "reasoning-delta") {
    told.reasoning += part.text;
    if (mode === "stop") left.abort();
  }
  if (part.type === "source") told.sources.push(part);
  if (part.type === "finish") told.finish = part.finishReason;
}

if (mode === "whole") {
  const whole = await generateText({ ...settings, prompt: question });
  const { text, reasoningText, sources, usage } = whole;
  told.whole = { text, reasoning: reasoningText, sources, usage };
  const next = { role: "user", content: question };
  const messages = [{ role: "user", content: question }, ...whole.response.messages, next];
  told.next = (await generateText({ ...settings, messages })).text;
  const embedder = (openai.embeddingModel ?? openai.textEmbeddingModel)("embedder");
  const { embeddings } = await embedMany({ model: embedder, values: [question, "Bread"] });
  told.dimensions = embeddings.map((vector) => vector.length);
}
console.log(JSON.stringify(told));
