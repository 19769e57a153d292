package token

import (
	"errors"
	"math"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// bpeFile is a tokenizer.json with this vocabulary and these merges.
func bpeFile(vocab, merges, rest string) string {
	return `{"model": {"type": "BPE", "vocab": ` + vocab + `, "merges": ` + merges + `}` + rest + `}`
}

func TestHostileFilesAreErrors(t *testing.T) {
	deep := strings.Repeat(`{"type":"Sequence","normalizers":[`, 500) + strings.Repeat(`]}`, 500)
	for name, c := range map[string]struct {
		file string
		want error
	}{
		"nothing":              {"", ErrVocabulary},
		"not JSON":             {"\x00", ErrVocabulary},
		"cut off":              {`{"model": {"type": "BPE", "vocab": {"a": 0`, ErrVocabulary},
		"no model":             {`{}`, ErrVocabulary},
		"a model of a kind":    {`{"model": {"type": "WordPiece", "vocab": {"a": 0}}}`, ErrUnsupported},
		"no vocabulary":        {bpeFile(`{}`, `[]`, ""), ErrVocabulary},
		"a vast id":            {bpeFile(`{"a": 2147483648}`, `[]`, ""), ErrVocabulary},
		"a vaster id":          {bpeFile(`{"a": 9223372036854775807}`, `[]`, ""), ErrVocabulary},
		"an id below 0":        {bpeFile(`{"a": -1}`, `[]`, ""), ErrVocabulary},
		"an id that is text":   {bpeFile(`{"a": "0"}`, `[]`, ""), ErrVocabulary},
		"an id twice":          {bpeFile(`{"a": 0, "b": 0}`, `[]`, ""), ErrVocabulary},
		"an added id twice":    {bpeFile(`{"a": 0}`, `[]`, `, "added_tokens": [{"id": 0, "content": "<s>"}]`), ErrVocabulary},
		"an added token twice": {bpeFile(`{"a": 0}`, `[]`, `, "added_tokens": [{"id": 1, "content": "a"}]`), ErrVocabulary},
		"a vast added id":      {bpeFile(`{"a": 0}`, `[]`, `, "added_tokens": [{"id": 4294967295, "content": "<s>"}]`), ErrVocabulary},
		"a long token":         {bpeFile(`{"`+strings.Repeat("a", maxTokenBytes+1)+`": 0}`, `[]`, ""), ErrVocabulary},
		"a merge of strangers": {bpeFile(`{"a": 0, "b": 1}`, `["a c"]`, ""), ErrVocabulary},
		"a merge into none":    {bpeFile(`{"a": 0, "b": 1}`, `["a b"]`, ""), ErrVocabulary},
		"a merge of one":       {bpeFile(`{"a": 0}`, `["a"]`, ""), ErrVocabulary},
		"a merge of three":     {bpeFile(`{"a": 0}`, `[["a", "a", "a"]]`, ""), ErrVocabulary},
		"dropout":              {`{"model": {"type": "BPE", "vocab": {"a": 0}, "dropout": 0.1}}`, ErrUnsupported},
		"a suffix":             {`{"model": {"type": "BPE", "vocab": {"a": 0}, "end_of_word_suffix": "</w>"}}`, ErrUnsupported},
		"unknown not there":    {`{"model": {"type": "BPE", "vocab": {"a": 0}, "unk_token": "<unk>"}}`, ErrVocabulary},
		"deep sequences":       {bpeFile(`{"a": 0}`, `[]`, `, "normalizer": `+deep), ErrUnsupported},
		"deeper than JSON":     {strings.Repeat("[", 20000), ErrVocabulary},
		"a normalizer":         {bpeFile(`{"a": 0}`, `[]`, `, "normalizer": {"type": "Precompiled"}`), ErrUnsupported},
		"a pre-tokenizer":      {bpeFile(`{"a": 0}`, `[]`, `, "pre_tokenizer": {"type": "BertPreTokenizer"}`), ErrUnsupported},
		"a behavior":           {bpeFile(`{"a": 0}`, `[]`, `, "pre_tokenizer": {"type": "Split", "behavior": "Lost", "pattern": {"String": "a"}}`), ErrUnsupported},
		"an empty pattern":     {bpeFile(`{"a": 0}`, `[]`, `, "pre_tokenizer": {"type": "Split", "behavior": "Isolated", "pattern": {"String": ""}}`), ErrVocabulary},
		"an expression":        {bpeFile(`{"a": 0}`, `[]`, `, "pre_tokenizer": {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "("}}`), ErrUnsupported},
		"a decoder":            {bpeFile(`{"a": 0}`, `[]`, `, "decoder": {"type": "WordPiece"}`), ErrUnsupported},
		"a post-processor":     {bpeFile(`{"a": 0}`, `[]`, `, "post_processor": {"type": "BertProcessing"}`), ErrUnsupported},
		"a template of none":   {bpeFile(`{"a": 0}`, `[]`, `, "post_processor": {"type": "TemplateProcessing", "single": []}`), ErrVocabulary},
		"a template's id": {bpeFile(`{"a": 0}`, `[]`, `, "post_processor": {"type": "TemplateProcessing", "single":
			[{"SpecialToken": {"id": "s"}}, {"Sequence": {"id": "A"}}], "special_tokens": {"s": {"ids": [7]}}}`), ErrVocabulary},
		"unigram, id twice":     {`{"model": {"type": "Unigram", "vocab": [["a", 0], ["a", 1]]}}`, ErrVocabulary},
		"unigram, no score":     {`{"model": {"type": "Unigram", "vocab": [["a"]]}}`, ErrVocabulary},
		"unigram, unknown":      {`{"model": {"type": "Unigram", "vocab": [["a", 0]], "unk_id": 1}}`, ErrVocabulary},
		"unigram, no text":      {`{"model": {"type": "Unigram", "vocab": [["", 0]]}}`, ErrVocabulary},
		"unigram, a vast score": {`{"model": {"type": "Unigram", "vocab": [["a", 1e999]]}}`, ErrVocabulary},
	} {
		if _, err := FromTokenizerJSON([]byte(c.file)); !errors.Is(err, c.want) || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
	}
}

// A value of another type than the format has is told of by its key, and by what it is
// to be in JSON.
func TestWrongTypesAreToldByTheirKeys(t *testing.T) {
	const number = "want a whole number of 64 bits"
	for file, want := range map[string]string{
		`[]`:                                     "tokenizer.json: a list, want an object",
		`{"added_tokens": {}}`:                   "tokenizer.json: added_tokens has an object, want a list",
		`{"added_tokens": [{"id": "7"}]}`:        "tokenizer.json: added_tokens.id has a string, " + number,
		`{"added_tokens": [{"content": 7}]}`:     "tokenizer.json: added_tokens.content has a number, want a string",
		`{}`:                                     "tokenizer.json: model is missing",
		`{"model": null}`:                        "tokenizer.json: model is missing",
		`{"model": 3}`:                           "tokenizer.json: model: a number, want an object",
		`{"model": {"merges": {}}}`:              "tokenizer.json: model: merges has an object, want a list",
		`{"model": {"merges": [3]}}`:             "tokenizer.json: model: merges has a number, want a string",
		`{"model": {"merges": [["a", 3]]}}`:      "tokenizer.json: model: merges has a number, want a string",
		`{"model": {"type": "BPE"}}`:             "tokenizer.json: model.vocab is missing",
		`{"model": {"type": "Unigram"}}`:         "tokenizer.json: model.vocab is missing",
		bpeFile(`[]`, `[]`, ""):                  "tokenizer.json: model.vocab: a list, want an object",
		bpeFile(`{"a": 0, "b": "1"}`, `[]`, ""):  `tokenizer.json: model.vocab: "b": a string, ` + number,
		bpeFile(`{"a": 0, "b": 1.25}`, `[]`, ""): `tokenizer.json: model.vocab: "b": the number 1.25, ` + number,
		`{"model": {"type": "Unigram", "vocab": [["a", "x"]]}}`:                       "tokenizer.json: model.vocab: a string, want a number of 64 bits",
		bpeFile(`{"a": 0}`, `[]`, `, "normalizer": 3`):                                "tokenizer.json: normalizer: a number, want an object",
		bpeFile(`{"a": 0}`, `[]`, `, "decoder": {"type": "Strip", "start": "1"}`):     "tokenizer.json: decoder: start has a string, " + number,
		bpeFile(`{"a": 0}`, `[]`, `, "pre_tokenizer": {"type": 7}`):                   "tokenizer.json: pre_tokenizer: type has a number, want a string",
		bpeFile(`{"a": 0}`, `[]`, `, "post_processor": {"special_tokens": {"s": 3}}`): "tokenizer.json: post_processor: special_tokens has a number, want an object",
	} {
		if _, err := FromTokenizerJSON([]byte(file)); !errors.Is(err, ErrVocabulary) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s:\n%v, want\n%s", file, err, want)
		}
	}
	for name, file := range map[string]string{
		"tokenizer_config.json: bos_token has a number, want a string":          `{"bos_token": 3}`,
		"tokenizer_config.json: eos_token.Content has a list, want a string":    `{"eos_token": {"content": []}}`,
		"tokenizer_config.json: add_bos_token has a string, want true or false": `{"add_bos_token": "yes"}`,
		"config.json: eos_token_id has a string, " + number:                     `{"eos_token_id": "2"}`,
		"generation_config.json: eos_token_id has a string, " + number:          `{"eos_token_id": [2, "3"]}`,
	} {
		folder := fstest.MapFS{"tokenizer.json": {Data: []byte(bpeFile(`{"a": 0}`, `[]`, ""))}}
		at, _, _ := strings.Cut(name, ":")
		folder[at] = &fstest.MapFile{Data: []byte(file)}
		if _, err := FromFolder(folder); !errors.Is(err, ErrVocabulary) || !strings.HasSuffix(err.Error(), name) {
			t.Errorf("%s: %s:\n%v, want\n%s", at, file, err, name)
		}
	}
}

// TestMergesInACircleEnd: each merge leaves one symbol fewer, whatever it makes.
func TestMergesInACircleEnd(t *testing.T) {
	tok, err := FromTokenizerJSON([]byte(bpeFile(`{"a": 0, "aa": 1, "aaa": 2, "aaaa": 3}`, `["a a", "aa a", "a aa", "aa aa", "a aaa"]`, "")))
	if err != nil {
		t.Fatal(err)
	}
	ids, err := tok.Encode(strings.Repeat("a", 1001))
	if err != nil || len(ids) != 251 || tok.Decode(ids) != strings.Repeat("a", 1001) {
		t.Errorf("%d ids, error %v, want 251 of the whole text", len(ids), err)
	}
}

func TestWhatCannotBeWrittenIsAnError(t *testing.T) {
	for name, file := range map[string]string{
		"bytes":      bpeFile(`{"a": 0}`, `[]`, `, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}`),
		"characters": bpeFile(`{"a": 0}`, `[]`, ""),
		"unigram":    `{"model": {"type": "Unigram", "vocab": [["a", 0]]}}`,
	} {
		tok, err := FromTokenizerJSON([]byte(file))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tok.Encode("ab"); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: error %v, want ErrUnknown", name, err)
		}
	}
}

func TestExpressionsThatBacktrackAreCutOff(t *testing.T) {
	tok, err := FromTokenizerJSON([]byte(bpeFile(`{"a": 0}`, `[]`,
		`, "pre_tokenizer": {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "(?:a|aa)+(?=x)y|a"}}`)))
	if err != nil {
		t.Fatal(err)
	}
	tok.stages[0].(cutter).find.(expression).re.MatchTimeout = 50 * time.Millisecond
	start := time.Now()
	if _, err = tok.Encode(strings.Repeat("a", 64) + "xy"); !errors.Is(err, ErrTimeout) {
		t.Errorf("error %v after %v, want ErrTimeout", err, time.Since(start))
	}
	deadline := time.Now().Add(-time.Second)
	find := tok.stages[0].(cutter).find
	if err := find.matches("axyaxy", deadline, func(int, int) {}); !errors.Is(err, ErrTimeout) {
		t.Errorf("error %v after the deadline, want ErrTimeout", err)
	}
}

func TestGrowthIsBounded(t *testing.T) {
	tok, err := FromTokenizerJSON([]byte(bpeFile(`{"a": 0}`, `[]`,
		`, "normalizer": {"type": "Replace", "pattern": {"String": "a"}, "content": "`+strings.Repeat("b", 1000)+`"}`)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tok.Encode(strings.Repeat("a", 100000)); !errors.Is(err, ErrTooLong) {
		t.Errorf("error %v, want ErrTooLong", err)
	}
}

// metadata is a GGUF file's, small and right.
func metadata() map[string]any {
	return map[string]any{
		"tokenizer.ggml.model":        "llama",
		"tokenizer.ggml.tokens":       []string{"<unk>", "<s>", "</s>", "<0x62>", "▁", "a", "▁a"},
		"tokenizer.ggml.scores":       []float32{0, 0, 0, 0, -1, -2, -3},
		"tokenizer.ggml.token_type":   []int32{2, 3, 3, 6, 1, 1, 1},
		"tokenizer.ggml.bos_token_id": uint32(1),
		"tokenizer.ggml.eos_token_id": uint32(2),
	}
}

func TestHostileMetadataIsAnError(t *testing.T) {
	if _, err := FromGGUF(metadata()); err != nil {
		t.Fatalf("the metadata that is right: %v", err)
	}
	nan := float32(math.NaN())
	for name, c := range map[string]struct {
		key   string
		value any
		want  error
	}{
		"no model":       {"tokenizer.ggml.model", nil, ErrUnsupported},
		"a model":        {"tokenizer.ggml.model", "bert", ErrUnsupported},
		"a model's type": {"tokenizer.ggml.model", 3, ErrVocabulary},
		"no tokens":      {"tokenizer.ggml.tokens", nil, ErrVocabulary},
		"tokens' type":   {"tokenizer.ggml.tokens", []int32{1}, ErrVocabulary},
		"few scores":     {"tokenizer.ggml.scores", []float32{1}, ErrVocabulary},
		"no scores":      {"tokenizer.ggml.scores", nil, ErrVocabulary},
		"NaN":            {"tokenizer.ggml.scores", []float32{0, 0, 0, 0, 0, nan, 0}, ErrVocabulary},
		"few types":      {"tokenizer.ggml.token_type", []int32{1}, ErrVocabulary},
		"a type":         {"tokenizer.ggml.token_type", []int32{2, 3, 3, 6, 1, 1, 9}, ErrVocabulary},
		"types' type":    {"tokenizer.ggml.token_type", "1", ErrVocabulary},
		"a bos":          {"tokenizer.ggml.bos_token_id", uint32(7), ErrVocabulary},
		"a vast bos":     {"tokenizer.ggml.bos_token_id", uint64(math.MaxUint64), ErrVocabulary},
		"no bos":         {"tokenizer.ggml.bos_token_id", nil, ErrVocabulary},
		"an unknown":     {"tokenizer.ggml.unknown_token_id", int32(-1), ErrVocabulary},
		"an eot":         {"tokenizer.ggml.eot_token_id", uint32(7), ErrVocabulary},
		"a flag":         {"tokenizer.ggml.add_bos_token", "yes", ErrVocabulary},
		"a template":     {"tokenizer.chat_template", []string{"x"}, ErrVocabulary},
	} {
		m := metadata()
		if m[c.key] = c.value; c.value == nil {
			delete(m, c.key)
		}
		if _, err := FromGGUF(m); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
	}
}

// TestByteLevelWantsMerges: without them each byte would be a token of its own.
func TestByteLevelWantsMerges(t *testing.T) {
	m := ggufOf(t, "gpt2", "gpt-2")
	mustGGUF(t, m)
	delete(m, "tokenizer.ggml.merges")
	if _, err := FromGGUF(m); !errors.Is(err, ErrVocabulary) || !strings.Contains(err.Error(), "merges") {
		t.Errorf("error %v, want ErrVocabulary that names the merges", err)
	}
}

func TestUnknownPreTokenizersAreNamed(t *testing.T) {
	m := metadata()
	m["tokenizer.ggml.model"], m["tokenizer.ggml.pre"] = "gpt2", "nobody's"
	_, err := FromGGUF(m)
	if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "llama-bpe") || !strings.Contains(err.Error(), "nobody's") {
		t.Errorf("error %v, want what came and what is known", err)
	}
}

func TestTextsThatAreTooLongAreErrors(t *testing.T) {
	tok := family(t, "gpt2")
	if _, err := tok.Encode(strings.Repeat("a", MaxText+1)); !errors.Is(err, ErrTooLong) {
		t.Errorf("error %v, want ErrTooLong", err)
	}
}

func FuzzTokenizerJSON(f *testing.F) {
	for _, file := range []string{ // small, so that a change of a byte means something
		bpeFile(`{"a": 0, "aa": 1}`, `["a a"]`, ""),
		bpeFile(`{"a": 0, "Ġ": 1, "Ġa": 2}`, `[["Ġ", "a"]]`, `, "pre_tokenizer": {"type": "ByteLevel"}, "decoder": {"type": "ByteLevel"}`),
		bpeFile(`{"a": 0}`, `[]`, `, "added_tokens": [{"id": 1, "content": "<s>", "special": true, "lstrip": true, "rstrip": true, "single_word": true}]`),
		bpeFile(`{"a": 0}`, `[]`, `, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": false},
			{"type": "Split", "pattern": {"Regex": "\\s+(?!\\S)|a+"}, "behavior": "MergedWithNext", "invert": true}]}`),
		bpeFile(`{"a": 0}`, `[]`, `, "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Prepend", "prepend": "a"},
			{"type": "Replace", "pattern": {"String": "b"}, "content": "aa"}]}`),
		`{"model": {"type": "BPE", "vocab": {"<unk>": 0, "<0x61>": 1, "▁": 2}, "byte_fallback": true, "unk_token": "<unk>", "fuse_unk": true, "ignore_merges": true},
			"pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "first", "split": true}, "decoder": {"type": "Sequence", "decoders":
			[{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1}]}}`,
		`{"model": {"type": "Unigram", "vocab": [["<unk>", 0], ["a", -1.5], ["ab", -2]], "unk_id": 0}, "post_processor": {"type": "TemplateProcessing",
			"single": [{"SpecialToken": {"id": "s"}}, {"Sequence": {"id": "A"}}], "special_tokens": {"s": {"ids": [0]}}}}`,
	} {
		if _, err := FromTokenizerJSON([]byte(file)); err != nil {
			f.Fatalf("%s: %v", file, err)
		}
		f.Add([]byte(file), "a <s>1 ab\xff")
	}
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		tok, err := FromTokenizerJSON(data)
		if err != nil {
			if tok != nil {
				t.Error("a tokenizer and an error")
			}
			return
		}
		ids, err := tok.EncodeSpecial(text)
		if err != nil {
			return
		}
		for _, id := range ids {
			if id < 0 || id >= tok.VocabSize() {
				t.Fatalf("id %d of %d", id, tok.VocabSize())
			}
		}
		tok.Decode(tok.AddSpecial(ids))
	})
}

func FuzzEncode(f *testing.F) {
	tok := family(f, "smollm")
	for _, text := range []string{"", "a<mask> b", "don't 123", "\xff\xfe", "é🙂", " \r\n "} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ids, err := tok.Encode(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := tok.Decode(ids); !strings.Contains(text, "<mask>") && got != text {
			t.Fatalf("%q came back as %q", text, got)
		}
	})
}
