"""What engines answered before they were killed, and whether the next one finds it."""

from __future__ import annotations

from typing import Any

Fact = dict[str, Any]


class Answered:
    """All that must outlast a kill. What was asked for and not answered may have happened or not, whole or not at all."""

    def __init__(self, expected: dict[str, list[int]]) -> None:
        self.expected = expected
        """The first tokens under each source, by an independent implementation."""
        self.lines: dict[str, Fact] = {}
        self.keys: set[str] = set()
        self.limit: int | None = None
        self.audit: dict[str, str] = {}
        self.trying: Fact | None = None
        self.opened = False
        self.steps = 0
        """What the engine that lives has begun and answered since it opened."""
        self._all_found = False
        self.num: dict[str, int] = {}
        self.taken_in = self.carried_on = 0
        """Rows of an import; engines that found it begun and not at its end."""
        self.end: Fact = {}
        self._found: dict[str, Fact] = {}
        self._found_audit: dict[str, str] = {}

    def begin(self) -> None:
        """A new engine opens."""
        self.opened = self._all_found = False
        self.steps = 0
        self._found, self._found_audit = {}, {}

    def hear(self, fact: Fact) -> None:
        """One line of an engine. Raises AssertionError when something is not as it was answered."""
        (kind, *_) = fact
        self.num[kind] = self.num.get(kind, 0) + 1
        assert kind != "fault", fact["fault"]
        self.steps += kind in {"trying", "key", "limit", "line", "taken_in"}
        getattr(self, f"_hear_{kind}")(fact)

    def summary(self) -> Fact:
        """How much was at stake."""
        versions = sum(len(line["versions"]) for line in self.lines.values())
        return {"lines": self.num, "versions": versions, "carried_on": self.carried_on, "end": self.end}

    # What a new engine finds

    def _hear_found(self, fact: Fact) -> None:
        self._found[fact.pop("found")] = fact

    def _hear_keys(self, fact: Fact) -> None:
        assert fact["damaged_images"] == [], f"images: {fact['damaged_images']}, {self._found}, trying {self.trying}"
        assert fact["broken_audit_line"] is None
        assert self.keys <= set(fact["keys"]), "a key that was shown is gone"
        tried = self.trying or {}
        assert fact["limit"] in {self.limit, tried.get("to")}, "a limit that was set is gone"
        self.limit = fact["limit"]
        for name in self.lines.keys() | self._found.keys():
            self._compare(name, self.lines.get(name), self._found.get(name), tried)
        self.lines = self._found

    def _compare(self, name: str, answered: Fact | None, found: Fact | None, tried: Fact) -> None:
        assert found is not None, f"{name} is gone"
        in_doubt = tried.get("name") == name or self._is_imported(name)
        assert in_doubt or found == answered, f"{name}: answered {answered}, found {found}, trying {tried}"
        for number, (content, _, source) in (answered or {"versions": {}})["versions"].items():
            assert found["versions"].get(number, [None])[0] == content, f"{name}: version {number} from {source} is gone"
        ready = {content for content, state, _ in found["versions"].values() if state == "ready"}
        assert found["alias"] is None or found["alias"] in ready, f"{name} names what does not serve: {found}"
        assert len(found["versions"]) <= len((answered or {"versions": {}})["versions"]) + 1, f"{name}: more was stored than was asked for"

    def _is_imported(self, name: str) -> bool:
        return not name.startswith("line")

    def _hear_answer(self, fact: Fact) -> None:
        assert self.audit.items() <= self._found_audit.items(), "a line of the audit log is gone or another"
        self.audit = dict(self._found_audit)
        self.trying = None
        self.opened = self._all_found = True
        answer = fact["answer"]
        assert answer is None or answer["ids"] == self.expected[answer["source"]], f"it answers otherwise: {answer}"

    # What an engine does

    def _hear_audit(self, fact: Fact) -> None:
        (self.audit if self._all_found else self._found_audit).update(fact["audit"])

    def _hear_trying(self, fact: Fact) -> None:
        self.trying = fact

    def _hear_key(self, fact: Fact) -> None:
        self.keys.add(fact["key"])
        self.trying = None

    def _hear_limit(self, fact: Fact) -> None:
        self.limit = fact["limit"]
        self.trying = None

    def _hear_line(self, fact: Fact) -> None:
        self.lines[fact.pop("line")] = fact
        self.trying = None

    def _hear_taken_in(self, fact: Fact) -> None:
        now, before = fact["taken_in"], self.taken_in
        assert now >= before, f"of {before} rows that were taken in {now} are left"
        self.carried_on += not self.opened and 0 < now < fact["total"]
        self.taken_in, self.opened = now, True

    def _hear_ended(self, fact: Fact) -> None:
        self.end = fact
