"""Many requests at once: the queue and its limit, cancelling, and the bits that each has alone."""
import array
import time
import unittest

from harness import Service, models, prompts, wait_until
from raw_client import RawClient

LIMIT = 256  # requests in work
OF_ONE = 192  # of them, of one client


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
        with RawClient(self.service) as client, RawClient(self.service) as second, RawClient(self.service) as other:
            for request in range(OF_ONE):
                self.generate(client, request, 2000)
            client.ask("ping", OF_ONE)
            seen = {}
            refused = None
            deadline = time.monotonic() + 20
            while refused is None or not any("place" in text for text in seen.values()):
                self.assertLess(time.monotonic(), deadline, seen)
                reply = client.receive()
                self.assertIsNotNone(reply)
                if reply["request"] == OF_ONE:
                    refused = reply
                elif reply["k"] == "progress":
                    seen[reply["request"]] = reply.get("text", "")
            self.assertEqual(refused["k"], "error", refused)
            self.assertIn(f"{OF_ONE} requests of this client", refused["text"])
            self.assertIn("try again", refused["text"])
            for request in range(LIMIT - OF_ONE):
                self.generate(second, request, 2000)
            second.ask("ping", LIMIT)
            self.assertIn("the service is full", second.last(LIMIT)["text"])
            began = time.monotonic()
            other.ask("ping", 1)
            self.assertIn(f"the service is full: {LIMIT} requests", other.last(1)["text"])
            self.assertLess(time.monotonic() - began, 2)
            for one, count in ((client, OF_ONE), (second, LIMIT - OF_ONE)):
                for request in range(count):
                    one.ask("cancel", request)
                ended = set()
                while len(ended) < count:
                    reply = one.receive(20000)
                    self.assertIsNotNone(reply, f"{len(ended)} ended")
                    if reply["k"] == "done":
                        ended.add(reply["request"])
        wait_until(lambda: self.service.ps()["requests"] == 0, 5, "no request left")
        self.assertEqual(self.service.ps()["models"][0]["pages_used"], 0)
        self.assertEqual(self.service.ids(self.model, self.tokens, 8), self.want)

    def test_clients_take_turns(self):
        """One with a single request does not wait for the many of another, which takes what it is sent."""
        ids, ended = [], set()
        with RawClient(self.service) as client, RawClient(self.service) as other:
            for request in range(OF_ONE):
                self.generate(client, request, 200)
            asked = done = False
            while not done:
                reply = client.receive(0)
                if reply is not None and reply["k"] == "tokens":
                    client.ask("ack", reply["request"], count=1)
                    if not asked:
                        self.generate(other, 1, 8)
                    asked = True
                elif reply is not None and reply["k"] == "done":
                    ended.add(reply["request"])
                reply = other.receive(0)
                if reply is not None and reply["k"] == "tokens":
                    ids += array.array("I", reply["tokens"]).tolist()
                    other.ask("ack", 1, count=1)
                done = reply is not None and reply["k"] == "done"
            for request in range(OF_ONE):
                client.ask("cancel", request)
        self.assertEqual(ids, self.want)
        self.assertLess(len(ended), 64, "it waited for a whole round of the other's")


if __name__ == "__main__":
    unittest.main()
