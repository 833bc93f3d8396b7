from evaluator.data.records import JudgementRow, Record, held_back, split, split_judgements

GROUPS = [f"article {number}" for number in range(200)]


def judgement(group: str, label: str = "[Utility:5]") -> JudgementRow:
    return JudgementRow("utility", "Why?", "So.", label, "en", "own", "natural", group)


def test_a_group_falls_on_the_side_where_its_records_fall() -> None:
    records = [Record("s", "en", "Why?", ("so",), True, group, "text") for group in GROUPS]
    _, held = split(records, 20)
    _, judged = split_judgements([judgement(group) for group in GROUPS], 20)
    assert [row.group for row in judged] == [record.title for record in held]
    assert [row.group for row in judged] == [group for group in GROUPS if held_back(group, 20)]
    assert 20 < len(judged) < 60


def test_no_row_is_lost_or_doubled_by_the_split() -> None:
    rows = [judgement(group, label) for group in GROUPS for label in ("[Utility:1]", "[Utility:5]")]
    train, check = split_judgements(rows, 20)
    assert sorted(map(str, [*train, *check])) == sorted(map(str, rows))
    assert not {row.group for row in train} & {row.group for row in check}
