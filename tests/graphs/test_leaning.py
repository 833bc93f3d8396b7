"""Which questions lean on the dialogue before them."""

import pytest

from graphs.leaning import LONGEST_READ, content_of, is_courtesy, leans


@pytest.mark.parametrize(
    "question",
    [
        "And who founded it?",
        "What about the lower one?",
        "Why?",
        "How so?",
        "Can that be changed?",
        "Who wrote this?",
        "What is the default?",
        "And the maximum?",
        "Which one is faster?",
        "In Chinese?",
        "On which port?",
        "What else did he direct?",
        "Is there a fee?",
        "What happens when it fails?",
        "Does the worker need one too?",
        "那下阈值呢？",
        "它需要 GPU 吗？",
        "为什么？",
        "默认值是多少？",
        "可以改吗？",
        "这需要多久？",
        "两者有什么区别？",
        "支持中文吗？",
        "總部在哪裡？",
        "這個可以改嗎？",
        "其中最快的是哪个？",
        "Continue",
        "Can you elaborate?",
        "OK, keep going!",
        "Summarise, please.",
        "Try again",
        "not working",
        "still can't log in",
        "But I still can’t log in.",
        "What if I still can't log in?",
        "继续",
        "好的，请继续说",
        "接着说",
        "展开讲讲",
        "再详细一点",
        "能再详细一点吗？",
        "用简单的话解释一下",
        "总结一下",
        "總結一下",
        "再说一遍",
        "一步一步说",
        "简短一点",
        "不行",
        "还是不行",
        "还是登录不了",
        "如果还是不能登录怎么办？",
        "Summarize the above",
        "Which of the above is faster for documents?",
        "You mentioned options; which ones?",
        "Can you say that in English?",
        "Translate it into Chinese, please.",
        "TL;DR",
        "总结一下上面说的",
        "你刚才说可以在请求里设置，具体怎么写？",
        "之前提到的选项怎样设置？",
        "用中文说",
        "翻译成英文",
        "包括PDF吗？",
        "哪个更适合生产环境？",
    ],
)
def test_it_leans(question: str) -> None:
    assert leans(question)


@pytest.mark.parametrize(
    "question",
    [
        "How do I delete a document?",
        "Why does self-crag say that it does not know?",
        "Is it possible to run without a GPU?",
        "How long does it take to index a thousand pages?",
        "Which options limit the number of drafts?",
        "Does the worker stop when it is overloaded?",
        "Who wrote the options that limit drafts?",
        "In which order are strips joined?",
        "And how do I delete a document?",
        "What is a knowledge strip?",
        "怎样删除文档？",
        "什么是知识条呢？",
        "什么是校准？",
        "应该怎样升级服务？",
        "其他搜索引擎怎样设置地址？",
        "评估器和它的工作进程有什么区别？",
        "self-crag 为什么说自己不知道？",
        "Summarise the plot of Hamlet",
        "Elaborate on the French Revolution.",
        "How do I continue a run?",
        "What does elaborate mean in French?",
        "Give me an example of a short sentence.",
        "Why is the Riemann hypothesis still not proven?",
        "总结《红楼梦》的主要情节",
        "用简单的话解释量子力学",
        "一步一步教我做红烧肉",
        "怎样继续运行？",
        "什么是总结？",
        "还是不错的电影有哪些？",
        "黎曼猜想为什么还是没有得到证明？",
        "What is the above-ground biomass of a forest?",
        "Translate the poem into Chinese.",
        "Explain English grammar",
        "How do I answer in English?",
        "灯塔用英语怎么说？",
        "登录之前提示密码错误怎么办？",
        "上传文件之前说明书要读吗？",
        "哪个国家人口最多？",
        "哪个更大，太阳还是地球？",
        "套餐包括什么？",
    ],
)
def test_it_stands_alone(question: str) -> None:
    assert not leans(question)


@pytest.mark.parametrize(
    "said",
    [
        *("Hello", "hi there!", "thanks", "Thank you very much!", "ok", "OK, thanks.", "Got it."),
        *("你好", "您好！", "谢谢", "謝謝你", "好的", "好的，谢谢！", "嗯", "哦"),
        *("明白了", "知道了", "再见"),
        *("Thanks, that helps!", "Thanks for the explanation", "thx", "cheers", "Nice!"),
        *("Great, thank you very much for your help!", "OK, makes sense", "Thanks for explaining"),
        *("谢谢你的帮助", "好的，感谢您的解答！", "明白了，谢谢解释"),
    ],
)
def test_thanks_and_greetings_lean_on_nothing(said: str) -> None:
    assert is_courtesy(said)
    assert not leans(said)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "?",
        "Why?",
        "So much?",
        "Is it ok?",
        "好吗？",
        "Hi-fi",
        "好处",
        "Nice weather",
        "It helps whom?",
        "谢谢你的问题怎样回答？",
    ],
)
def test_what_asks_is_no_courtesy(said: str) -> None:
    assert not is_courtesy(said)


def test_own_words_are_left() -> None:
    assert content_of("What does the upper threshold decide?") == ["upper", "threshold", "decide"]
    assert content_of("默认的工作流是哪个？") == ["工作流"]


@pytest.mark.parametrize("text", ["it " * 4000, "that," * 2000, "它" * 8000, "  ", "?", "？？"])
def test_any_text_is_judged(text: str) -> None:
    assert leans(text) in (True, False)
    assert len(" ".join(content_of(text))) <= LONGEST_READ


@pytest.mark.parametrize("question", ["What is 知识条?", "What does 灯塔 mean?"])
def test_a_chinese_name_is_a_word_of_an_english_question(question: str) -> None:
    assert len(content_of(question)) == 1
    assert not leans(question)
