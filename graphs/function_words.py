"""Words that say nothing of their own in a question: what is left is what it is about."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


EMPTY_EN = _words("""
    since until after before during because while between both within whether against
    a an the i me my we us our you your it its itself they them their theirs he him his she her
    hers this that these those one ones both either neither such same other others another there
    here what which who whom whose when where why how is are was were be been being am do does
    did done have has had can could should would will shall may might must not no and or but so
    then also too as well if of in on at by for from with without to into about than under over
    per via out up off exactly really actually please just only still even again ever else
    instead otherwise mean means happen happens happened work works go goes tell say says show
    give explain describe know see use used using make makes made take takes took get gets set
    change changed turn switch need needs want wants think find many much more most long often
    far old big some any all few thing things way ways yes ok okay thanks thank i'm it's that's
    what's isn't doesn't don't s t
""")
"""Question words, pronouns, prepositions, and verbs that go with anything."""

RELATIONAL_EN = _words("""
    default defaults value values maximum minimum limit limits range difference differences
    reason reasons purpose name names size format alternative alternatives cost costs price
    downside downsides advantage advantages drawback drawbacks meaning origin author founder
    result results unit units exception exceptions order effect effects consequence consequences
    rest example examples detail details step steps kind kinds part parts type types number
    first second third last next former latter better best worse worst faster fastest slower
    slowest cheaper larger smaller higher lower longer shorter possible necessary required
    optional important recommended configurable allowed enabled disabled adjustable affect
    affects
""")
"""What belongs to something: the default of what?"""

EMPTY_ZH = _words("""
    请问 请 告诉我 告诉 说说 说明 解释 介绍 一下 举例 举个例子 例子 例如 比如 什么 怎么样 怎么
    怎样 怎 如何 为什么 为何 何时 何处 何 哪里 哪个 哪些 哪种 哪儿 哪 谁 多少 多久 多大 多长
    多高 多快 几个 几次 几 是否 能否 可否 有没有 能不能 是不是 可不可以 会不会 需不需要 要不要
    吗 呢 吧 啊 呀 么 了 的 着 是 没有 没 不 也 都 就 才 还 又 再 很 最 更 太 只 可以 能够 可能
    应该 应当 必须 需要 想 让 把 被 对于 使用 跟 和 与 及 或 或者 以及 还有 而且 并且 但是 所以
    然后 那么 如果 的话 时候 之后 之前 上面 下面 它们 它 他们 他 她们 她 我们 我 你们 你 您 这些
    这个 这样 这种 这里 这 那些 那个 那样 那种 那里 那 前者 后者 两者 二者 上述 同样 其他 别的
    另外 另一个 一个 一种 一些 些 做 办 改变 修改 调整 设置 换 打开 关闭 关掉 看 知道 发生 进行
    支持 意思 原因 理由 区别 不同 差别 好处 坏处 优点 缺点 作用 用途 含义 默认值 默认 数值 范围
    上限 下限 限制 最大 最小 单位 名字 名称 例外 结果 影响 步骤 情况 方法 办法 问题 具体 详细
    更多 真的 一定 总是 一直 现在 当时 之间 之一 第一个 第二个 快 慢 好 更好 推荐 重要 什麼 怎麼
    怎麼樣 怎樣 為什麼 為何 多長 哪裡 哪個 哪種 誰 嗎 麼 這個 這些 這樣 這種 這裡 這 那個 那裡
    那樣 還有 還 沒有 有沒有 沒 時候 應該 應當 能夠 請問 請 告訴 說明 解釋 介紹 我們 你們 它們
    他們 她們 預設值 預設 設定 設置 關閉 打開 支援 區別 差別 優點 缺點 範圍 數值 步驟 舉例 發生
    影響 結果 單位 名稱 問題 辦法 幾個 幾 與 進行 默認 默認值 讓
""")
"""The same of both kinds; of single characters those that are seldom part of a longer word."""

BOUNDS_ZH = _words("上限 下限")
"""Empty in a question, yet they tell what the next one is about."""

RIVALS = (
    BOUNDS_ZH,
    *map(_words, ("upper lower", "minimum maximum", "first second third last")),
)
"""Of these one is meant and the others are not: "And the lower one?"."""

EMPTY_ZH_ALONE = (
    "在(?!线)|有(?![用效关])|[会會](?![话話议議员員])|能(?![力量])|要(?![求点素])|用(?![户途量法])|对(?![话象比照齐])"
    "|后(?![端续缀台])|前(?![端缀台])|中(?![文间国止断心])|[时時](?![间間区區长長刻限])|里(?!面)|改(?![写进])|变(?![量化])"
    "|开(?![始头源发])|关(?![键系于])|设(?!计)|次(?!数)|从(?!属)|到(?!期)|由|向(?!量)|以|为|為|使|[过過]|[个個](?![性人])|[种種](?![子类類])|[给給]"
)
"""Single characters that are part of other words, too, with what then follows."""

MORE_EN = _words("""
    please can could would you just now then and but so the a an it that this me us i i'd like in
    on to with more again over once one step by be simply simple simpler short shorter brief
    briefly terms words sentence sentences summarise summarize summary sum up simplify continue
    elaborate expand clarify rephrase repeat reword keep going go ahead further tell say explain
    give make need detail details detailed example examples less long longer try not doesn't work
    working above differently translate
""")
MORE_ZH = _words("""
    请 請 能 可以 能不能 可不可以 吗 嗎 吧 呢 了 啊 再 更 还 還 的 得 给 給 帮 幫 我 你 您 一下 一点
    一點 一些 点 點 些 详细 详细地 詳細 詳細地 具体 具体地 具體 具體地 简单 简单地 簡單 簡單地 简短
    簡短 简洁 簡潔 简化 簡化 通俗 易懂 清楚 说明白 明白 短 多 细 細 仔细 仔細 深入 进一步 進一步
    补充 補充 展开 展開 继续 繼續 接着 接著 往下 下去 说 說 讲 講 谈 談 解释 解釋 介绍 介紹 说明
    說明 总结 總結 概括 归纳 歸納 重新 重说 重說 重讲 重講 一遍 一次 一步 一步步 分步 逐步 用 的话
    的話 一句话 一句話 的语言 的語言 来 來 举例 舉例 举 舉 例子 几个 幾個 个 個 不行 没用 沒用
    不管用
""")
MORE_PHRASE = (
    r"tl;?dr\b|(?:in|into|to) (?:english|chinese|mandarin)\b"
    r"|(?:用|翻[译譯](?:一下)?(?:成|[为為])?)(?:[简簡繁][体體])?(?:[中英汉漢][文语語])"
)
"""A text of these words alone asks for more of the same, or for the same in another form."""

COURTESY = (
    r"(?:(?:(?:many |no )?(?:thanks|thank you|thx)(?: so much| very much| a lot| again)?"
    r"(?: for (?:(?:your|the|all) ){0,2}(?:help|explanation|answer|reply|information|info|details"
    r"|clarification|time)| for (?:explaining|helping|clarifying)(?: that| this| it)?)?"
    r"|(?:hello|hi|hey)(?: there)?|good (?:morning|afternoon|evening|night)|ok|okay|great|perfect"
    r"|cheers|nice|cool|awesome|(?:(?:that|this|it) )?(?:really )?(?:helps|helped|makes sense)"
    r"|(?:that['’]?s |that is )?(?:very )?(?:helpful|clear now)"
    r"|got it|i see|understood|bye|goodbye)\b"
    r"|(?:非常)?(?:[谢謝]{2}|多[谢謝]|感[谢謝])(?:[你您]|大家)?"
    r"(?:的?(?:[帮幫]助|[帮幫]忙|解[释釋]|解答|[说說]明|回答|回[复覆復]))?|(?:[你您]|大家|早上|晚上)好|[很太]?好[的吧了啊]?"
    r"|嗯|哦|再[见見]|拜拜|明白了?|知道了|懂了|收到|了解了?|辛苦了|不客[气氣])"
)
"""Thanks, greetings, and that something was understood."""
