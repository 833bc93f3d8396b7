"""How the constructed classes of evaluator/constructed.py are made, in words."""

RULES = """\
Natural rows carry the data set's own labels: a faithful answer is [Fully supported], another one
[No support / Contradictory]; a relevant answer is [Utility:5], another one [Utility:1]; a relevant
passage is [Continue to Use Evidence], another one or an unanswerable question's [Retrieval].
"natural verdict" are bare verdicts (SUPPORTS, REFUTES) on a claim; they have no utility.

| class | kind | made from |
|---|---|---|
| Fully supported | right answer | the short answer, alone, in a frame or in its sentence |
| Fully supported | two right sentences | the same beside another sentence of the passage |
| Partially supported | right and wrong value | both values joined by "and" |
| Partially supported | foreign sentence | a right answer beside another article's sentence |
| Partially supported | changed sentence | a right answer, and a sentence with one number changed |
| Partially supported | wrong answer, right sentence | a wrong answer, and the passage's words |
| No support | swapped answer | another value, of the same type where there is one, in its place |
| No support | another passage | a right answer beside a similar passage without the answer |
| No support | answer to another question | a right answer of another article's question |
| No support | nothing right | a wrong answer beside a foreign or changed sentence |
| No support | unanswerable | an answer of the passage to a question it leaves open |
| Utility 5 | complete answer | the answer as above, or an expert's whole answer |
| Utility 5 | answer and sentence | the short answer, then its sentence |
| Utility 4 | diluted | an answer and one sentence that was not asked for |
| Utility 3 | cut | the first half of an answer's sentence |
| Utility 3 | buried | an answer among three sentences of other articles |
| Utility 2 | same subject | one or two sentences of the passage without the answer |
| Utility 1 | answer to another question | another article's answer, of another type if short |
| Utility 1 | empty talk | politeness, evasion, refusal, or the question said back |
| Continue | answering passage | the passage that answers, whole or its answering sentences |
| Retrieval | nearest passage | a similar passage (BM25) without the answer |
| Retrieval | answer removed | the answering passage without the sentences that answer |
| Retrieval | another subject | a passage of another article |

Most wrong values are of the passage itself, so that words in common do not decide alone.
"""
"""For the model card."""
