package token

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// chatML is a template in the manner of Qwen's and SmolLM's.
const chatML = `{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}{% endfor %}` +
	`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

func withTemplate(t testing.TB, source string) *Tokenizer {
	t.Helper()
	tok := family(t, "smollm")
	tok.chat = source
	return tok
}

func TestRenderChat(t *testing.T) {
	tok := withTemplate(t, chatML)
	got, err := tok.RenderChat([]Message{{"system", "Be brief."}, {"user", "Hi!"}}, ChatOptions{AddGenerationPrompt: true})
	want := "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi!<|im_end|>\n<|im_start|>assistant\n"
	if err != nil || got != want {
		t.Errorf("%q, error %v, want %q", got, err, want)
	}
}

func TestTemplatesSeeDateTokensAndVariables(t *testing.T) {
	tok := withTemplate(t, `{{ bos_token }}|{{ eos_token }}|{{ strftime_now("%d %b %Y %H:%M%%") }}|{{ enable_thinking }}|{{ messages | length }}`)
	bos, _ := tok.ID("<|im_start|>")
	tok.bos, tok.eos = bos, -1
	got, err := tok.RenderChat(nil, ChatOptions{
		Now:       time.Date(2026, 7, 4, 5, 6, 7, 0, time.UTC),
		Variables: map[string]any{"enable_thinking": false, "messages": "not these"},
	})
	if want := "<|im_start|>||04 Jul 2026 05:06%|False|0"; err != nil || got != want {
		t.Errorf("%q, error %v, want %q", got, err, want)
	}
	tok.chat = `{{ strftime_now("%Q") }}`
	if _, err := tok.RenderChat(nil, ChatOptions{}); !errors.Is(err, ErrTemplate) {
		t.Errorf("an unknown form of date: error %v, want ErrTemplate", err)
	}
}

func TestTemplatesThatFailAreErrors(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		want   string
	}{
		"none":        {"", "the model has none"},
		"not valid":   {"{% if %}", "line 1"},
		"refuses":     {"{{ raise_exception('roles must alternate') }}", "roles must alternate"},
		"without end": {"{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", "too many steps"},
	} {
		tok := withTemplate(t, c.source)
		_, err := tok.EncodeChat([]Message{{"user", "x"}}, ChatOptions{})
		if !errors.Is(err, ErrTemplate) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want ErrTemplate with %q", name, err, c.want)
		}
	}
}

// TestEncodeChatEqualsTheRenderedText: where no message spells a special token.
func TestEncodeChatEqualsTheRenderedText(t *testing.T) {
	tok := withTemplate(t, chatML)
	rapid.Check(t, func(t *rapid.T) {
		messages := []Message{{"user", rapid.String().Draw(t, "content")}, {"assistant", rapid.String().Draw(t, "answer")}}
		text, err := tok.RenderChat(messages, ChatOptions{AddGenerationPrompt: true})
		if err != nil {
			t.Fatal(err)
		}
		want, err1 := tok.EncodeSpecial(text)
		got, err2 := tok.EncodeChat(messages, ChatOptions{AddGenerationPrompt: true})
		if err1 != nil || err2 != nil || !slices.Equal(got, want) {
			t.Fatalf("%v, error %v; want %v, error %v", got, err2, want, err1)
		}
	})
}

// TestAMessageCannotEndItsTurn: the special tokens are those of the template,
// and the text is that of the message.
func TestAMessageCannotEndItsTurn(t *testing.T) {
	tok := withTemplate(t, chatML)
	words := rapid.SliceOf(rapid.SampledFrom([]string{"<|im_end|>", "<|im_start|>", "<|im", "_end|>", "<", "\n", "assistant", "é", "\ufdd0", "<think>"}))
	rapid.Check(t, func(t *rapid.T) {
		messages := []Message{{"user", strings.Join(words.Draw(t, "content"), "")}, {strings.Join(words.Draw(t, "role"), ""), "x"}}
		ids, err := tok.EncodeChat(messages, ChatOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var special []string
		for _, id := range ids {
			if tok.IsSpecial(id) {
				special = append(special, tok.Name(id))
			}
		}
		if want := []string{"<|im_start|>", "<|im_end|>", "<|im_start|>", "<|im_end|>"}; !slices.Equal(special, want) {
			t.Fatalf("special tokens %q, want %q", special, want)
		}
		want := ""
		for _, m := range messages {
			want += m.Role + "\n" + m.Content + "\n"
		}
		if got := tok.Decode(ids); got != want {
			t.Fatalf("text %q, want %q", got, want)
		}
	})
}

func TestGuardsMayRunOut(t *testing.T) {
	tok := withTemplate(t, chatML)
	all := ""
	for r := rune(0xFDD0); r <= 0xFDEF; r++ {
		all += string(r)
	}
	if _, err := tok.EncodeChat([]Message{{"user", all}}, ChatOptions{}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("error %v, want ErrUnsupported", err)
	}
	if _, err := tok.EncodeChat([]Message{{"user", all[3:]}}, ChatOptions{}); err != nil {
		t.Errorf("one left: %v", err)
	}
}
