"""Makes the tokenizers and the expected ids in this folder.

    pip install tokenizers==0.23.3
    python make.py

Each tokenizer is trained on CORPUS, small, and has the components of a family
of models. Its ids for TEXTS and for random strings are those of Hugging Face's
tokenizers, which shares no code with package token:

    plain    encode_special_tokens, so that text never becomes a special token
    special  special tokens read where the text spells them, where that differs
    text     the decoded ids of plain, where they are not the text

splits.json has, for pre-tokenizers alone, the lengths in bytes of the pieces.
"""
import json
import pathlib
import random

try:
    from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models,
                            normalizers, pre_tokenizers, processors, trainers)
except (ImportError, OSError) as missing:
    raise SystemExit(f"{__file__}: {missing}; what to install stands at its head") from None

HERE = pathlib.Path(__file__).parent
VOCAB = 480

CORPUS = [
    "The cache is cut into splits, and each split yields a state; the states merge exactly, in any order.",
    "A model reads a prompt, then writes one token at a time. It's slow where the context is long, isn't it?",
    "We'll see that they've merged; I'd say you're right. THEY'RE LOUD, and camelCase or HTTPServer2 are words too.",
    "func merge(a, b State) State {\n\tif a.IsEmpty() {\n\t\treturn b\n\t}\n\treturn combine(a, b)\n}\n",
    "for i in range(1024):\n    total += values[i] * 0.5  # half\n\n\nprint(total)\n",
    "Der Zwischenspeicher wächst mit jedem Schritt; größere Köpfe brauchen mehr. Ça va très bien, merci à tous.",
    "模型每一步只有一个新的查询，缓存却有很多键。把缓存切开，各自计算，再合并。",
    "キャッシュを分割して、それぞれ計算し、最後に合わせる。",
    "Кэш растёт с каждым шагом, а запрос остаётся один.",
    "ذاكرة التخزين تكبر مع كل خطوة. हर कदम पर एक नया प्रश्न है। แคชโตขึ้นทุกขั้นตอน",
    "1234567890 3.14159 2,718,281 0xFF 10:45 2026-11-30 ½ ² ٣ 四",
    "🙂 🎉🎉 👩‍💻 🇩🇪 é à ñ ǅ ʰ ﬁ — “quoted” … €5 §3",
] * 3

TEXTS = [
    "", " ", "  ", "   x", "x   ", "\n", "\n\n", " \n", "\n ", "\r\n\r\n", "\t\tx", " \t \n x", "a \n\n b", "   \n   ",
    "Hello, world!", " Hello", "  Hello  there", "it's IT'S it'S 'twas 'tis we'll WE'LL we'Ll I'm I'M you've YOU'VE 'ſ x'ſ 're'",
    "'", "''", "'s", " 's", "' s", "x'", "x'x", "can't've",
    "0", "12", "123", "1234", "1234567890123456789012345678901234567890", " 12 345", "3.14", "v1.2.3", "½²٣四五", "x1y22z333",
    "camelCase HTTPServer XMLHttpRequest iOS eBay ALLCAPS Title lower McDonald aB Ab ABc", "ǅungla ǅǅ ʰa aʰ ʰA Aʰ ªº",
    "naïve café cafe\u0301 e\u0301\u0302 A\u030a \u0301 \u0301x x\u0301 1\u0301 \u0301\u0301 \u0301A \u0301a a\u0301B", "ﬁ ﬂ Å Å Ω Ω",
    "你好，世界。模型合并缓存", "日本語のテキスト、カタカナ", "한국어 문장입니다", "नमस्ते दुनिया क्षि", "สวัสดีชาวโลก", "مرحبا بالعالم ١٢٣",
    "Привет, мир! ЭТО Слово", "🙂", "🙂🙂 🎉", "👩‍💻 👨‍👩‍👧‍👦 🇩🇪 🏳️‍🌈 ☺️", "a🙂b", "\u200b\u200d\ufeff", "\u00a0\u00a0x\u00a0", "\u0085x\u0085", "\u2028x\u2029 \u3000y\u3000",
    "\x00", "\x00\x01\x02\x7f\x1b[31m", "a\x00b", "\x0b\x0c \x1c\x1d\x1e\x1f", "tab\tand\nline\rreturn\r\nboth",
    "if (a >= b && c != d) { return x->y[0]; } // 100%", "def f(x):\n    return x**2\n\n\n\nclass A:\n\tpass\n", "https://example.org/a/b?c=d&e=f#g", "path/to//file.go\n/", "a/\n//\n", "!!!\n\n???/\n",
    "<|im_start|>user\nhi<|im_end|>", "<|im_end|><|im_end|>", "x<|im_end|> y", "<|im_end", "<think>so</think>", " <think> ", "<mask>", "a <mask> b", "a<mask>b", "word", "a word b", "awordb", "word,words word_ Word",
    "<s>", "</s>", "<unk>", "<0x0A>", "▁", "▁▁x", "a▁b", " ▁ ", "Ġ", "ĠĊ", "Ã©",
    "a" * 300, "ab" * 200, " " * 100, "\n" * 40, "merge" * 40, "the state of the cache and the split of the state",
]


def random_texts():
    rng = random.Random(20261130)
    letters = [" ", " ", "\n", "\r", "\t", "'", "s", "t", "ll", "A", "b", "C", "ǅ", "ʰ", "\u0301", "1", "23", "½", ".", "/", "(", "€",
               "🙂", "\u200d", "你", "的", "ы", "Ы", "é", "\u00a0", "\u3000", "\x00", "the", "state", "<|im_end|>", "<think>", "word", "▁", "_"]
    return ["".join(rng.choice(letters) for _ in range(rng.randrange(1, 24))) for _ in range(150)]


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = QWEN2.replace(r"\p{L}+|", r"[\p{L}\p{M}]+|").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
U, L = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LEAD, C = r"[^\r\n\p{L}\p{N}]?", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT4O = f"{LEAD}{U}*{L}+{C}|{LEAD}{U}+{L}*{C}|" + r"\p{N}{1,3}" + REST
TEKKEN = f"{LEAD}{U}*{L}+|{LEAD}{U}+{L}*|" + r"\p{N}" + REST
OTHER = r"\p{Lu}?\p{Ll}+|\p{L}|\p{N}{1,2}|\s+(?!\S)|[^\s\p{L}\p{N}]+|\s"  # no model's: runs on regexp2


def split(*expressions):
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(e), "isolated") for e in expressions]
        + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def byte_level(pre, normalizer=None, **model):
    tok = Tokenizer(models.BPE(**model))
    tok.pre_tokenizer, tok.decoder = pre, decoders.ByteLevel()
    if normalizer is not None:
        tok.normalizer = normalizer
    return tok, dict(initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def byte_fallback(normalizer=None, pre=None, trim=True):
    tok = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    if normalizer is not None:
        tok.normalizer = normalizer
    if pre is not None:
        tok.pre_tokenizer = pre
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tok.decoder = decoders.Sequence(steps + ([decoders.Strip(" ", 1, 0)] if trim else []))
    return tok, dict(special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)], extra=256)


def families():
    yield "gpt2", byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))
    yield "gpt2-prefix", byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True))
    yield "smollm", byte_level(pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]))
    yield "llama3", byte_level(split(LLAMA3), ignore_merges=True)
    yield "qwen2", byte_level(split(QWEN2), normalizers.NFC())
    yield "qwen35", byte_level(split(QWEN35), normalizers.NFC())
    yield "gpt4o", byte_level(split(GPT4O))
    yield "tekken", byte_level(split(TEKKEN))
    yield "other", byte_level(split(OTHER))
    yield "llama2", byte_fallback(normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]))
    yield "gemma", byte_fallback(normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"), trim=False)
    yield "mistral", byte_fallback(pre=pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False))
    yield "unigram", unigram()


def unigram():
    tok = Tokenizer(models.Unigram())
    tok.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="always", split=True)
    tok.decoder = decoders.Metaspace("▁", prepend_scheme="always", split=True)
    return tok, dict(unigram=True)


def train(tok, options):
    if options.get("unigram"):
        trainer = trainers.UnigramTrainer(vocab_size=VOCAB, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False)
    else:
        trainer = trainers.BpeTrainer(
            vocab_size=VOCAB + options.get("extra", 0), show_progress=False, max_token_length=12,
            initial_alphabet=options.get("initial_alphabet", []), special_tokens=options.get("special_tokens", []))
    tok.train_from_iterator(CORPUS, trainer)
    if "extra" in options:  # in a model's file the bytes are of the vocabulary alone
        data = json.loads(tok.to_str())
        data["added_tokens"] = [t for t in data["added_tokens"] if not t["content"].startswith("<0x")]
        tok = Tokenizer.from_str(json.dumps(data))
    tok.add_special_tokens([AddedToken(t, normalized=False) for t in ["<|im_start|>", "<|im_end|>"]])
    tok.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False),
                    AddedToken("<mask>", lstrip=True, rstrip=True, normalized=False),
                    AddedToken("word", single_word=True, normalized=False)])
    bos = tok.token_to_id("<|im_start|>")
    template = processors.TemplateProcessing(single="<|im_start|> $A", special_tokens=[("<|im_start|>", bos)])
    tok.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return tok


def main():
    texts = TEXTS + random_texts()
    (HERE / "texts.json").write_text(json.dumps(texts, ensure_ascii=True, indent=0) + "\n")
    for name, (tok, options) in families():
        tok = train(tok, options)
        tok.save(str(HERE / f"{name}.tokenizer.json"), pretty=False)
        answers = {"plain": [], "special": {}, "text": {}}
        for i, text in enumerate(texts):
            tok.encode_special_tokens = True
            ids = tok.encode(text, add_special_tokens=False).ids
            answers["plain"].append(ids)
            if tok.decode(ids) != text:
                answers["text"][i] = tok.decode(ids)
            tok.encode_special_tokens = False
            special = tok.encode(text, add_special_tokens=False).ids
            if special != ids:
                answers["special"][i] = special
        lines = ",\n".join(json.dumps(k) + ": " + json.dumps(v, separators=(",", ":")) for k, v in answers.items())
        (HERE / f"{name}.answers.json").write_text("{\n" + lines + "\n}\n")


def splits(texts):
    """Pre-tokenizers, as tokenizer.json writes them, and the pieces they give."""
    cases = {name: pre_tokenizers.Split(Regex(e), "isolated")
             for name, e in [("gpt2", GPT2), ("llama3", LLAMA3), ("qwen2", QWEN2), ("qwen35", QWEN35), ("gpt4o", GPT4O), ("tekken", TEKKEN), ("other", OTHER)]}
    cases["digits"] = pre_tokenizers.Digits(individual_digits=False)
    cases["each digit"] = pre_tokenizers.Digits(individual_digits=True)
    for behavior in ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]:
        cases[behavior] = pre_tokenizers.Split(Regex(r"[a-s]|\p{N}+"), behavior)
        cases[behavior + ", inverted"] = pre_tokenizers.Split(Regex(r"[a-s]|\p{N}+"), behavior, invert=True)
    cases["string"] = pre_tokenizers.Split(" ", "merged_with_previous")
    cases["GPT-4's way to split by what matches"] = pre_tokenizers.Split(Regex(LLAMA3), "removed", invert=True)
    out = []
    for name, pre in cases.items():
        tok = Tokenizer(models.BPE())
        tok.pre_tokenizer = pre
        component = json.loads(tok.to_str())["pre_tokenizer"]
        lengths = [" ".join(str(len(p.encode())) for p, _ in pre.pre_tokenize_str(text)) for text in texts]
        out.append({"name": name, "component": component, "lengths": lengths})
    lines = ",\n".join(json.dumps(x, separators=(",", ":")) for x in out)
    (HERE / "splits.json").write_text("[\n" + lines + "\n]\n")


main()
splits(TEXTS + random_texts())
