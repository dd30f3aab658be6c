"""The Python side of `cargo xtask data-interop`: makes text, compares token files, times a pool of processes.

data_compare.py text OUT SEED BYTES [DICT]   JSON lines from a dictionary (or Python's documentation), cut up and mixed
data_compare.py compare TEXT TOKENIZER RANKS OUTPUT
data_compare.py pool TEXT TOKENIZER OUT      what public preprocessors do: encode_batch in a multiprocessing pool
"""

import base64
import gzip
import json
import multiprocessing
import os
import pydoc_data.topics
import random
import re
import struct
import sys
import time


def make_text(out, seed, size, dictionary=None):
    rng = random.Random(int(seed))
    if dictionary:
        with gzip.open(dictionary, "rt", encoding="utf-8", errors="replace") as file:
            whole = file.read()
    else:
        whole = "\n\n".join(pydoc_data.topics.topics[k] for k in sorted(pydoc_data.topics.topics))
    paragraphs = [p for p in re.split(r"\n\s*\n", whole) if p.strip()]
    words = sorted(set(re.findall(r"[A-Za-z]{3,}", whole)))
    ugly = ["", " ", "\n\n\n", "é\u0301 naïve 東京 🙂", "\u200b\ufeff", "a" * 3000, "</s> inside", "\t\r\n mixed \x00"]
    written = 0
    with open(out, "w", encoding="utf-8") as file:
        for text in ugly:
            written += file.write(json.dumps({"text": text, "n": 1}) + "\n")
        while written < int(size):
            picked = [rng.choice(paragraphs) for _ in range(rng.randrange(1, 24))]
            # A few words change, so that no document is a copy of another.
            swap = lambda m: rng.choice(words) if rng.random() < 0.05 else m.group()
            text = re.sub(r"[A-Za-z]{3,}", swap, "\n\n".join(picked))
            written += file.write(json.dumps({"text": text}, ensure_ascii=rng.random() < 0.5) + "\n")


def documents(text):
    with open(text, encoding="utf-8", newline="\n") as file:
        return [json.loads(line)["text"] for line in file]


def read_shard(prefix):
    with open(prefix + ".idx", "rb") as file:
        head = file.read()
    assert head[:9] == b"MMIDIDX\0\0"
    version, code, count, _ = struct.unpack_from("<QBQQ", head, 9)
    assert (version, code) == (1, 4), (version, code)
    lengths = struct.unpack_from(f"<{count}i", head, 34)
    with open(prefix + ".bin", "rb") as file:
        body = file.read()
    ids = struct.unpack(f"<{len(body) // 4}i", body)
    at, out = 0, []
    for n in lengths:
        out.append(list(ids[at : at + n]))
        at += n
    assert at == len(ids)
    return out


def compare(text, tokenizer, ranks, output):
    import tiktoken
    from tokenizers import Tokenizer

    with open(os.path.join(output, "blend.json")) as file:
        blend = json.load(file)
    prefixes = sorted(p for split in blend.values() for p in split[1::2])
    ours = [read_shard(p) for p in prefixes]
    n = len(ours)
    texts = documents(text)
    theirs = Tokenizer.from_file(os.path.join(tokenizer, "tokenizer.json"))
    eos = theirs.token_to_id("</s>")
    with open(ranks) as file:
        raw = json.load(file)
    special = raw["config"]["default_num_special_tokens"]
    size = raw["config"]["default_vocab_size"] - special
    table = {base64.b64decode(e["token_bytes"]): e["rank"] for e in raw["vocab"][:size]}
    original = tiktoken.Encoding("ranks", pat_str=raw["config"]["pattern"], mergeable_ranks=table, special_tokens={})
    for i, (doc, encoding) in enumerate(zip(texts, theirs.encode_batch(texts, add_special_tokens=False))):
        got = ours[i % n][i // n]
        assert got == encoding.ids + [eos], f"document {i}: {got[:20]} differs from {encoding.ids[:20]}"
        if "</s>" not in doc:
            own = [r + special for r in original.encode_ordinary(doc)]
            assert own == encoding.ids, f"document {i}: the converted tokenizer differs from the original"
    assert sum(map(len, ours)) == len(texts), "documents are missing or doubled"
    print(f"{len(texts)} documents, {sum(len(d) for s in ours for d in s)} tokens in {n} shards agree")


def start_worker(path):
    from tokenizers import Tokenizer

    global TOKENIZER
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    TOKENIZER = Tokenizer.from_file(path)


def encode_lines(lines):
    texts = [json.loads(line)["text"] for line in lines]
    return [e.ids for e in TOKENIZER.encode_batch(texts, add_special_tokens=False)]


def pool(text, tokenizer, out):
    from array import array

    start = time.time()
    tokens = 0

    def batches(file):
        batch = []
        for line in file:
            batch.append(line)
            if len(batch) == 256:
                yield batch
                batch = []
        yield batch

    path = os.path.join(tokenizer, "tokenizer.json")
    with multiprocessing.Pool(os.cpu_count(), start_worker, (path,)) as workers, open(out + ".bin", "wb") as target:
        lengths = array("i")
        with open(text, encoding="utf-8", newline="\n") as file:
            for encoded in workers.imap(encode_lines, batches(file), chunksize=1):
                for ids in encoded:
                    ids.append(2)
                    lengths.append(len(ids))
                    tokens += len(ids)
                    array("i", ids).tofile(target)
        with open(out + ".idx", "wb") as index:
            lengths.tofile(index)
    seconds = time.time() - start
    print(f"Python pool: {seconds:.2f} s, {tokens / seconds / 1e6:.3f} M tokens/s ({tokens} tokens)")


if __name__ == "__main__":
    {"text": make_text, "compare": compare, "pool": pool}[sys.argv[1]](*sys.argv[2:])
