import collections


class Reached:
    """What never succeeded was not tested, whatever else passed. A few tries that fail say nothing."""

    ENOUGH = 20

    def __init__(self, exempt):
        self.exempt, self.tried, self.succeeded = exempt, collections.Counter(), set()

    def note(self, case, operation, success):
        if case.meta is None or case.meta.generation.mode.is_positive:
            self.tried[operation] += 1
        if success:
            self.succeeded.add(operation)

    def after_run(self, ctx):
        never = {operation for operation, tries in self.tried.items() if tries >= self.ENOUGH} - self.succeeded - self.exempt
        assert not never, f"never succeeded: {', '.join(sorted(never))}"
