/** The page's words in English and Chinese, side by side, and numbers as they are written. */

const WORDS = {
  ask: ["Ask", "提问"],
  runs: ["Runs", "运行记录"],
  documents: ["Documents", "文档"],
  collection: ["Collection", "文档集"],
  question: ["Your question", "你的问题"],
  questionHint: ["Enter asks, Shift+Enter starts a new line.", "按 Enter 提问，按 Shift+Enter 换行。"],
  placeholder: ["Ask about the knowledge base …", "向知识库提问……"],
  examples: ["Examples", "示例"],
  workflow: ["Workflow", "工作流"],
  options: ["Options", "选项"],
  optionsHint: ["Only what you change is sent.", "只发送你改动的选项。"],
  changed: ["{0} changed", "已改动 {0} 项"],
  filterOptions: ["Find an option", "查找选项"],
  reset: ["Reset", "恢复默认"],
  leftOut: ["left out", "不设置"],
  oneALine: ["One a line.", "每行一个。"],
  from: ["From {0} to {1}.", "取值 {0} 到 {1}。"],
  isDefault: ["Default {0}.", "默认 {0}。"],
  cancel: ["Cancel", "取消"],
  continueThread: ["Continue this conversation", "继续当前对话"],
  answer: ["Answer", "答案"],
  answerEmpty: ["The answer appears here, with the sentences it rests on.", "答案和它所依据的句子会显示在这里。"],
  citations: ["Citations", "引用"],
  openCitation: ["Open citation {0}", "打开引用 {0}"],
  draftRetracted: ["Draft of round {0}, taken back:", "第 {0} 轮草稿已撤回："],
  graph: ["Steps of the workflow", "工作流的步骤"],
  graphOf: ["Drawing of the workflow {0}", "工作流 {0} 的示意图"],
  timeline: ["Timeline", "时间线"],
  timelineEmpty: ["Steps appear here as they happen.", "步骤发生时会显示在这里。"],
  startedAt: ["began at {0}", "开始于 {0}"],
  tookTime: ["took {0}", "用时 {0}"],
  evidence: ["How it came about", "答案的由来"],
  nothingFound: ["This step told nothing.", "这一步没有给出信息。"],
  standalone_question: ["Question that stands alone", "独立的问题"],
  queries: ["Queries", "查询"],
  retrieval: ["Retrieval", "检索决定"],
  needed: ["needed", "需要检索"],
  notNeeded: ["not needed", "不需要检索"],
  action: ["Action", "动作"],
  "action.correct": ["Evidence: sufficient", "证据：充分"],
  "action.incorrect": ["Evidence: insufficient", "证据：不足"],
  "action.ambiguous": ["Evidence: mixed", "证据：不一"],
  "verdict.supported": ["Supported by its sources", "来源支持"],
  "verdict.partly": ["Partly supported", "部分得到支持"],
  "verdict.unsupported": ["Not supported", "来源不支持"],
  "verdict.abstained": ["No answer found", "未找到答案"],
  "verdict.not_judged": ["Not judged", "未经评判"],
  grades: ["Graded passages", "段落评分"],
  passages: ["Passages", "段落"],
  gradesHint: ["Point at a dot or move to it with Tab.", "把指针移到圆点上，或用 Tab 键移到圆点。"],
  upper: ["upper", "上阈值"],
  lower: ["lower", "下阈值"],
  thresholds: ["Thresholds", "阈值"],
  strips: ["Strips", "知识条"],
  keptOf: ["{0} of {1} kept, floor {2}", "保留 {0}/{1}，下限 {2}"],
  kept: ["kept", "保留"],
  dropped: ["dropped", "丢弃"],
  showDropped: ["{0} dropped", "丢弃的 {0} 条"],
  rewritten_query: ["Search words", "搜索用词"],
  web_results: ["Web pages", "网页"],
  candidates: ["Drafts", "草稿"],
  chosen: ["chosen", "选用"],
  critique: ["Critique", "评判"],
  round: ["Round {0}", "第 {0} 轮"],
  accepted: ["accepted", "接受"],
  rejected: ["not accepted", "未接受"],
  relevance: ["relevance", "相关性"],
  support: ["support", "支持度"],
  utility: ["utility", "有用度"],
  score: ["score", "得分"],
  degraded: ["Went on without", "缺少以下部分仍继续"],
  facts: ["Facts of the run", "运行概况"],
  run: ["Run", "运行"],
  thread: ["Conversation", "对话"],
  stopped_by: ["Ended", "结束原因"],
  "stopped.answered": ["answered, not judged", "已回答，未经评判"],
  "stopped.accepted": ["draft accepted", "草稿被接受"],
  "stopped.max_critic": ["most revisions made", "修订次数用尽"],
  "stopped.unchanged": ["revision changed nothing", "修订没有变化"],
  "stopped.no_evidence": ["no evidence", "没有依据"],
  "stopped.budget": ["budget spent", "预算用尽"],
  "stopped.deadline": ["deadline passed", "到达时限"],
  "stopped.cancelled": ["cancelled", "已取消"],
  generator: ["Generator", "生成器"],
  evaluator: ["Evaluator", "评估器"],
  embedder: ["Embedder", "嵌入模型"],
  llm_calls: ["Model calls", "模型调用"],
  tokens: ["Tokens in / out", "输入/输出词元"],
  scored_pairs: ["Scored pairs", "评分次数"],
  web_searches: ["Web searches", "网络搜索"],
  total: ["Time", "用时"],
  "origin.internal": ["Knowledge base", "知识库"],
  "origin.web": ["Web", "网络"],
  feedback: ["Was this answer good?", "这个答案好吗？"],
  good: ["Good", "好"],
  bad: ["Bad", "不好"],
  corrected: ["What should it have said?", "应该怎样回答？"],
  send: ["Send", "发送"],
  thanks: ["Thank you, kept with the run.", "谢谢，已随运行保存。"],
  given: ["Feedback: {0}", "反馈：{0}"],
  runsEmpty: ["Nothing was asked yet.", "还没有提过问题。"],
  compare: ["Compare two chosen runs", "比较选中的两次运行"],
  chooseRun: ["Choose for comparison: {0}", "选来比较：{0}"],
  more: ["More", "更多"],
  refresh: ["Refresh", "刷新"],
  "status.running": ["running", "运行中"],
  "status.done": ["done", "完成"],
  "status.cancelled": ["cancelled", "已取消"],
  "status.failed": ["failed", "失败"],
  "status.lost": ["lost", "中断"],
  diff: ["What changed", "有何变化"],
  before: ["Before", "之前"],
  after: ["After", "之后"],
  noChange: ["Nothing but the time differs.", "除用时外没有差别。"],
  "diff.request": ["Request", "请求"],
  "diff.decided": ["Decisions", "决定"],
  "diff.path": ["Way through the graph", "经过的步骤"],
  "diff.grades": ["Grades", "评分"],
  "diff.drafts": ["Drafts", "草稿"],
  "diff.usage": ["Usage", "用量"],
  "diff.took_ms": ["Time of the steps, ms", "各步骤用时（毫秒）"],
  drop: ["Drop files here, or choose them", "把文件拖到这里，或选择文件"],
  uploading: ["Sending {0} …", "正在发送 {0}……"],
  reading: ["Reading {0} ({1} of {2})", "正在读取 {0}（{1}/{2}）"],
  indexing: ["Indexing ({0} of {1})", "正在建立索引（{0}/{1}）"],
  report: ["{0} added, {1} updated, {2} unchanged, {3} refused", "新增 {0}，更新 {1}，未变 {2}，拒绝 {3}"],
  search: ["Search", "查找"],
  chunks: ["Chunks", "分块"],
  shared: ["shared", "共享"],
  remove: ["Delete", "删除"],
  removeOf: ["Delete {0}", "删除 {0}"],
  reallyRemove: ["Delete for good?", "确定删除？"],
  ofTotal: ["{0} of {1} documents", "共 {1} 个文档，显示 {0} 个"],
  documentsEmpty: ["No document is found.", "没有找到文档。"],
  key: ["API key", "API 密钥"],
  keyHint: ["This service asks for a key. It is kept until this tab is closed.", "此服务需要密钥。密钥只保存到关闭此标签页为止。"],
  keyUnreadable: ["This is not a key.", "这不是密钥。"],
  save: ["Use this key", "使用此密钥"],
  theme: ["Switch between dark and light", "切换深色和浅色"],
  skip: ["Skip to the content", "跳到内容"],
  stateAsking: ["Asking …", "正在提问……"],
  stateAt: ["Working: {0}", "正在进行：{0}"],
  stateDone: ["Answered in {0}", "已回答，用时 {0}"],
  stateCancelling: ["Cancelling …", "正在取消……"],
  stateLost: ["The connection broke; trying again …", "连接断开，正在重试……"],
  tooLong: ["At most 8,000 characters; these are {0}.", "最多 8000 个字符，这里有 {0} 个。"],
  unreachable: ["The service does not answer.", "服务没有响应。"],
  connectionLost: ["The connection was lost; reload to look again.", "连接中断；请重新加载页面再查看。"],
  runLost: ["This run ended without an answer.", "这次运行没有得到答案就结束了。"],
  pages: ["Pages", "页面"],
};

const LANGUAGE = "selfcrag-language";

function preferred() {
  const kept = localStorage.getItem(LANGUAGE) ?? navigator.language ?? "en";
  return kept.toLowerCase().startsWith("zh") ? "zh" : "en";
}

let language = preferred();

export const current = () => language;

export function choose(wanted) {
  language = wanted;
  localStorage.setItem(LANGUAGE, wanted);
}

/** Whether the page has words for a key. */
export const knows = (key) => Object.hasOwn(WORDS, key);

/** The words of a key in the chosen language, or of its last part; else that part as it is. */
export function t(key, ...values) {
  const last = key.split(".").at(-1);
  const said = (WORDS[key] ?? WORDS[last])?.[language === "zh" ? 1 : 0] ?? last;
  return values.reduce((text, value, index) => text.replace(`{${index}}`, () => value), said);
}

let chinese = null;

/** Loads what is said in Chinese alone, where that is chosen. */
export async function learn() {
  if (language === "zh") chinese ??= await import("./options_zh.mjs");
}

/** What the service says in English, in the chosen language where the page knows it. */
export const said = (table, key, english) => (language === "zh" && chinese?.[table][key]) || english;

/** Why the service refused a text. */
export function refusal(text, { status, message }) {
  const count = [...text].length;
  return status === 422 && count > 8000 ? t("tooLong", count) : message;
}

/** Says what the page's elements are marked to say. */
export function say(root = document) {
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  for (const it of root.querySelectorAll("[data-t]")) it.textContent = t(it.dataset.t);
  for (const it of root.querySelectorAll("[data-t-label]")) {
    it.setAttribute("aria-label", t(it.dataset.tLabel));
  }
  for (const it of root.querySelectorAll("[data-t-hint]")) it.placeholder = t(it.dataset.tHint);
}

export const ms = (time) => (time >= 1000 ? `${(time / 1000).toFixed(1)} s` : `${Math.round(time)} ms`);

export const score = (value) =>
  typeof value === "number" ? (value > 0 ? "+" : "") + value.toFixed(2).replace("-", "−") : "–";

export function bytes(size) {
  if (size < 1000) return `${size} B`;
  return size < 1e6 ? `${(size / 1000).toFixed(1)} kB` : `${(size / 1e6).toFixed(1)} MB`;
}

export const when = (iso) => new Date(iso).toLocaleString(language === "zh" ? "zh-CN" : "en");
