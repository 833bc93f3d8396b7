// node ai.mjs PACKAGE URL BODY QUESTION [IMAGE]: the message that the AI SDK puts together, as JSON.
const [name, api, body, question, image] = process.argv.slice(2);
const { DefaultChatTransport, readUIMessageStream } = await import(name);

const transport = new DefaultChatTransport({ api: `${api}/ask/ui`, body: JSON.parse(body) });
const files = image ? [{ type: "file", mediaType: "image/png", url: image }] : [];
const data = [];
const kept = new TransformStream({
  transform(chunk, controller) {
    if (chunk.transient) data.push(chunk.type);
    controller.enqueue(chunk);
  },
});
const told = { texts: [], errors: [] };

try {
  const chunks = await transport.sendMessages({
    chatId: "chat-1",
    trigger: "submit-message",
    messages: [{ id: "m1", role: "user", parts: [...files, { type: "text", text: question }] }],
  });
  const states = readUIMessageStream({
    stream: chunks.pipeThrough(kept),
    onError: (error) => told.errors.push(error.message),
  });
  for await (const message of states) {
    told.message = message;
    const shown = message.parts.filter((part) => part.type === "text").map((part) => part.text);
    if (shown.join("") !== told.texts.at(-1)) told.texts.push(shown.join(""));
  }
} catch (error) {
  told.refused = error.message;
}

console.log(JSON.stringify({ ...told, data }));
