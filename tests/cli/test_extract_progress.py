"""What a log without a bar shows: tenths, rate and time left, by a clock of our own."""

from wildcal._old.cli.extract_progress import Steps


def lines(capsys):
    return capsys.readouterr().err.splitlines()


def test_tenths_rate_and_time_left(capsys):
    clock = iter([0, 10, 20, 30, 100]).__next__
    steps = Steps(1000, watched=False, clock=clock)
    steps.add(50)  # at 10 s
    assert lines(capsys) == []
    steps.add(50)  # at 20 s
    assert lines(capsys) == ["100 of 1,000 rows, 5 a second, about 3 minutes left."]
    steps.add(700)
    assert lines(capsys) == ["800 of 1,000 rows, 26.7 a second, about 8 seconds left."]
    steps.add(200)
    assert lines(capsys) == ["1,000 of 1,000 rows."]


def test_rows_that_were_there_say_nothing_of_the_rate(capsys):
    clock = iter([0, 1, 201]).__next__
    steps = Steps(1000, watched=False, clock=clock)
    steps.found(900)
    assert lines(capsys) == ["900 of 1,000 rows."]
    steps.add(50)
    assert lines(capsys) == ["950 of 1,000 rows, 0.249 a second, about 3 minutes left."]


def test_a_line_is_due_after_a_while(capsys):
    clock = iter([0, 119, 120, 121, 240]).__next__
    steps = Steps(1_000_000, watched=False, clock=clock)
    for _ in range(4):
        steps.add(100)
    assert lines(capsys) == [
        "200 of 1,000,000 rows, 1.67 a second, about 166.6 hours left.",
        "400 of 1,000,000 rows, 1.67 a second, about 166.6 hours left.",
    ]


def test_a_bar_needs_no_lines(capsys):
    steps = Steps(10, watched=True, clock=iter(range(9)).__next__)
    steps.add(10)
    assert (lines(capsys), steps.done) == ([], 10)
