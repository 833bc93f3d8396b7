// node chat.mjs PACKAGE URL BODY QUESTION [stop]: a chat of the AI SDK, as `useChat` keeps one.
const [name, api, body, question, stop] = process.argv.slice(2);
const { AbstractChat, DefaultChatTransport } = await import(name);
const told = { texts: [], drafts: [], data: [], errors: [] };

class State {
  status = "ready";
  error = undefined;
  messages = [];
  snapshot = (value) => structuredClone(value);
  pushMessage(message) {
    this.messages = [...this.messages, message];
    this.show(message);
  }
  popMessage() {
    this.messages = this.messages.slice(0, -1);
  }
  replaceMessage(index, message) {
    this.messages = this.messages.with(index, message);
    this.show(message);
  }
  show({ role, parts }) {
    if (role !== "assistant") return;
    const of = (type) => parts.filter((part) => part.type === type);
    const text = of("text").map((part) => part.text).join("");
    if (text !== told.texts.at(-1)) told.texts.push(text);
    const drafts = of("data-draft").map(({ data }) => `${data.state}: ${data.text}`).join(" | ");
    if (drafts && drafts !== told.drafts.at(-1)) told.drafts.push(drafts);
  }
}

class Chat extends AbstractChat {
  constructor(init) {
    super({ ...init, state: new State() });
  }
}

const chat = new Chat({
  id: "chat-1",
  transport: new DefaultChatTransport({ api: `${api}/ask/ui`, body: JSON.parse(body) }),
  onData: ({ type, data }) => {
    told.data.push(type);
    if (stop && type === "data-step" && data.step === stop) chat.stop();
  },
  onError: (error) => told.errors.push(error.message),
});
await chat.sendMessage({ text: question });
told.status = chat.status;
told.message = chat.lastMessage;
console.log(JSON.stringify(told));
