"""An OpenAI-compatible server on loopback, whose answers and faults a test chooses."""

import json
import socket
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def fault(status=200, body=None, headers=(), *, raw=None, cut=False, hang=0.0, drip=0):
    """What a server does instead of answering: a status, bytes, a cut connection, silence, a trickle."""
    content = raw if raw is not None else json.dumps(body or {"error": {"message": "injected"}}).encode()
    return {"status": status, "content": content, "headers": dict(headers), "cut": cut, "hang": hang, "drip": drip}


class Server:
    """Serves ``answer(path, body)``, a reply or a fault, under ``url``. ``asked`` are the bodies of all POSTs.

    ``faults`` are used up one by one before anything is answered; ``key`` is the only one that is accepted; ``models``
    is the list of models, or the fault of a server that has none.
    """

    def __init__(self, answer, *, faults=(), key=None, models=("stub",), paths=("/completions", "/chat/completions")):
        self.answer, self.faults, self.key, self.models, self.paths = answer, list(faults), key, models, paths
        self.asked, self.headers, self.busy, self.most_busy = [], [], 0, 0
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def _reply(self, path, body):
        if path not in self.paths:
            return fault(404, {"detail": "Not Found"})
        with self.lock:
            injected = self.faults.pop(0) if self.faults else None
        return injected or self.answer(path, body)

    def _handler(self):
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def log_message(self, *_):
                pass

            def do_GET(self):
                allowed = outer.key is None or self.headers.get("Authorization") == f"Bearer {outer.key}"
                if isinstance(outer.models, dict):
                    self.send(outer.models)
                else:
                    data = [{"id": name, "object": "model"} for name in outer.models]
                    self.send(fault(200, {"data": data}) if allowed else fault(401))

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer.lock:
                    outer.asked.append(body)
                    outer.headers.append(dict(self.headers))
                    outer.busy += 1
                    outer.most_busy = max(outer.busy, outer.most_busy)
                try:
                    allowed = outer.key is None or self.headers.get("Authorization") == f"Bearer {outer.key}"
                    reply = outer._reply(self.path.removeprefix("/v1"), body) if allowed else fault(401)
                finally:
                    with outer.lock:
                        outer.busy -= 1
                self.send(reply if "content" in reply else fault(200, reply))

            def send(self, reply):
                time.sleep(reply["hang"])
                content = reply["content"]
                try:
                    if reply["cut"]:
                        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
                        self.wfile.flush()
                        linger = struct.pack("ii", 1, 0)
                        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                        self.close_connection = True
                        return
                    self.send_response(reply["status"])
                    for name, value in {"Content-Length": str(len(content)), **reply["headers"]}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    for byte in content[: reply["drip"]]:
                        self.wfile.write(bytes([byte]))
                        self.wfile.flush()
                        time.sleep(0.05)
                    self.wfile.write(content[reply["drip"] :])
                    self.wfile.flush()
                except OSError:
                    self.close_connection = True

        return Handler


def text_reply(text, *, chat=False, prompt_tokens=7, completion_tokens=3):
    """A reply with a text."""
    choice = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    return {"choices": [{"index": 0, "finish_reason": "stop", **choice}], "usage": usage}


def prompt_of(body):
    """The prompt of a request, plain or as a message."""
    return body["prompt"] if "prompt" in body else body["messages"][0]["content"]


def writes(text="4"):
    """Answers every prompt with a text, or with what a function makes of the prompt."""

    def answer(path, body):
        said = text(prompt_of(body)) if callable(text) else text
        return text_reply(said, chat=path.startswith("/chat"))

    return answer


class RealModel:
    """Answers with a model of transformers, token by token and without any code of breadth.

    ``gives`` says what the server can do: log-probabilities of the prompt (``echo``) and lists of likeliest tokens
    (``top``), which have ``times`` as many tokens as asked for.
    """

    def __init__(self, folder, gives=("echo", "top"), times=1):
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.torch, self.gives, self.times = torch, gives, times
        self.model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(str(folder))
        self.lock = threading.Lock()

    def __call__(self, path, body):
        chat, prompt = path.startswith("/chat"), prompt_of(body)
        ids = self.tokenizer(prompt)["input_ids"]
        with self.lock, self.torch.inference_mode():
            logprobs = self._logprobs(ids)
            written = self._greedy(ids, body["max_tokens"], body.get("stop") or [])
        text = self.tokenizer.decode(written, skip_special_tokens=True)
        for stop in body.get("stop") or []:
            text = text.split(stop)[0]
        reply = text_reply(text, chat=chat, prompt_tokens=len(ids), completion_tokens=len(written))
        if body.get("echo") and "echo" in self.gives:
            everything = [*ids, *written[:1]]
            spelled = [self.tokenizer.decode([token]) for token in everything]
            after = self._logprobs(everything)
            each = [None, *(float(after[k, token]) for k, token in enumerate(everything[1:]))]
            reply["choices"][0]["logprobs"] = {"tokens": spelled, "token_logprobs": each}
        elif body.get("logprobs") and "top" in self.gives and not body.get("echo"):
            most = body["top_logprobs"] if chat else body["logprobs"]
            values, best = logprobs[-1].topk(most * self.times)
            pairs = [(self.tokenizer.decode([int(k)]), float(v)) for k, v in zip(best, values, strict=True)]
            content = [{"top_logprobs": [{"token": token, "logprob": value} for token, value in pairs]}]
            reply["choices"][0]["logprobs"] = {"content": content} if chat else {"top_logprobs": [dict(pairs)]}
        return reply

    def _logprobs(self, ids):
        with self.torch.inference_mode():
            return self.model(input_ids=self.torch.tensor([ids]), use_cache=False).logits[0].log_softmax(-1)

    def _greedy(self, ids, tokens, stops):
        written = []
        while len(written) < tokens:
            best = int(self._logprobs([*ids, *written])[-1].argmax())
            if best == self.tokenizer.eos_token_id:
                break
            written.append(best)
            if any(stop in self.tokenizer.decode(written) for stop in stops):
                break
        return written
