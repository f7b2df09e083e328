class Reached:
    """What never succeeded was not tested, whatever else passed."""

    def __init__(self, exempt):
        self.exempt, self.tried, self.succeeded = exempt, set(), set()

    def note(self, operation, success):
        self.tried.add(operation)
        if success:
            self.succeeded.add(operation)

    def after_run(self, ctx):
        never = self.tried - self.succeeded - self.exempt
        assert not never, f"never succeeded: {', '.join(sorted(never))}"
