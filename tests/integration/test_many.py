"""Many requests at once: the queue and its limit, cancelling, and the bits that each has alone."""
import array
import time
import unittest

from harness import Service, models, prompts, wait_until
from raw_client import RawClient

LIMIT = 256  # requests in work


class Queue(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = Service()
        cls.addClassCleanup(cls.service.stop)
        _, path, about = models()[0]
        cls.model = str(path)
        cls.tokens = prompts(about)[1]
        cls.want = cls.service.ids(path, cls.tokens, 8)
        cls.packed = array.array("I", cls.tokens).tobytes()

    def generate(self, client, request, n):
        client.ask("generate", request, model=self.model, tokens=self.packed, n=n, ignore_eos=True)

    def test_place_and_limit(self):
        """Nobody acknowledges, so that seats stay taken: places are told, one more is refused at once, and
        cancelling all leaves nothing behind."""
        with RawClient(self.service) as client, RawClient(self.service) as other:
            for request in range(LIMIT):
                self.generate(client, request, 2000)
            client.ask("ping", LIMIT)
            seen = {}
            refused = None
            deadline = time.monotonic() + 20
            while refused is None or not any("place" in text for text in seen.values()):
                self.assertLess(time.monotonic(), deadline, seen)
                reply = client.receive()
                self.assertIsNotNone(reply)
                if reply["request"] == LIMIT:
                    refused = reply
                elif reply["k"] == "progress":
                    seen[reply["request"]] = reply.get("text", "")
            self.assertEqual(refused["k"], "error", refused)
            self.assertIn(f"{LIMIT} requests", refused["text"])
            self.assertIn("try again", refused["text"])
            began = time.monotonic()
            other.ask("ping", 1)
            self.assertIn("the service is full", other.last(1)["text"])
            self.assertLess(time.monotonic() - began, 2)
            for request in range(LIMIT):
                client.ask("cancel", request)
            ended = set()
            while len(ended) < LIMIT:
                reply = client.receive(20000)
                self.assertIsNotNone(reply, f"{len(ended)} ended")
                if reply["k"] == "done":
                    ended.add(reply["request"])
        wait_until(lambda: self.service.ps()["requests"] == 0, 5, "no request left")
        self.assertEqual(self.service.ps()["models"][0]["pages_used"], 0)
        self.assertEqual(self.service.ids(self.model, self.tokens, 8), self.want)


if __name__ == "__main__":
    unittest.main()
