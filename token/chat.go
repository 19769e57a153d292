package token

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flashdec/flashdec/internal/jinja"
)

// ErrTemplate is wrapped by the error of a chat template that is not there, or
// that fails: it may also refuse messages, a role that it does not know for
// instance, and then the error says why.
var ErrTemplate = errors.New("token: chat template")

// Message is one turn of a conversation. Roles are the template's: "system",
// "user" and "assistant" for most.
type Message struct{ Role, Content string }

// ChatOptions says how a conversation is put into text.
type ChatOptions struct {
	AddGenerationPrompt bool           // ends with the beginning of an answer
	Now                 time.Time      // the date that some templates name; the zero value is the time of the call
	Variables           map[string]any // further variables of the template, "enable_thinking" for instance
}

// A template is stopped after this many steps and bytes, and as many more for
// each byte of the messages.
const (
	templateBudget        = 1 << 24
	templateBudgetPerByte = 64
)

// RenderChat returns the messages in the text that the model's chat template
// makes of them. To encode it, use [Tokenizer.EncodeChat], which knows what in
// it was said by whom.
func (t *Tokenizer) RenderChat(messages []Message, o ChatOptions) (string, error) {
	size := 0
	list := make([]any, len(messages))
	for i, m := range messages {
		size += len(m.Role) + len(m.Content)
		list[i] = []jinja.Field{{Key: "role", Value: m.Role}, {Key: "content", Value: m.Content}}
	}
	switch {
	case t == nil:
		return "", errUnmade
	case t.chat == "":
		return "", fmt.Errorf("%w: the model has none", ErrTemplate)
	case size > MaxText:
		return "", fmt.Errorf("%w: messages of %d bytes, want at most %d", ErrTooLong, size, MaxText)
	}
	parsed, err := jinja.Parse(t.chat)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrTemplate, err)
	}
	variables := map[string]any{"bos_token": t.Name(t.bos), "eos_token": t.Name(t.eos)}
	for name, v := range o.Variables {
		variables[name] = v
	}
	variables["messages"], variables["add_generation_prompt"] = list, o.AddGenerationPrompt
	now := o.Now
	if now.IsZero() {
		now = time.Now()
	}
	functions := map[string]func(string) (string, error){
		"strftime_now": func(layout string) (string, error) { return strftime(now, layout) },
	}
	text, err := parsed.Execute(variables, functions, jinja.Budget(templateBudget+templateBudgetPerByte*size))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrTemplate, err)
	}
	return text, nil
}

// EncodeChat returns the ids of what RenderChat returns. Special tokens that
// the template writes are read as such; those that a message spells are
// characters, so that nobody can end their turn and begin another's.
func (t *Tokenizer) EncodeChat(messages []Message, o ChatOptions) ([]int, error) {
	if t == nil {
		return nil, errUnmade
	}
	guard, err := guardFor(messages)
	if err != nil {
		return nil, err
	}
	guarded := make([]Message, len(messages))
	for i, m := range messages {
		if guarded[i].Role, err = t.parted(m.Role, guard); err != nil {
			return nil, err
		}
		if guarded[i].Content, err = t.parted(m.Content, guard); err != nil {
			return nil, err
		}
	}
	text, err := t.RenderChat(guarded, o)
	if err != nil {
		return nil, err
	}
	return t.encode(text, true, guard)
}

// guardFor returns a character that no message holds: one of those that
// Unicode keeps free for use inside a program.
func guardFor(messages []Message) (string, error) {
	for r := rune(0xFDD0); r <= 0xFDEF; r++ {
		guard, used := string(r), false
		for _, m := range messages {
			used = used || strings.Contains(m.Role, guard) || strings.Contains(m.Content, guard)
		}
		if !used {
			return guard, nil
		}
	}
	return "", fmt.Errorf("%w: the messages hold all of the noncharacters U+FDD0 to U+FDEF", ErrUnsupported)
}

// parted returns text with guard behind the first character of each special
// token that it spells, so that it spells none.
func (t *Tokenizer) parted(text, guard string) (string, error) {
	var out strings.Builder
	at := 0
	for i := range len(text) {
		special := ""
		if t.added.first[text[i]] {
			special = t.added.shortestSpecial(text[i:])
		}
		if special == "" {
			continue
		}
		_, n := utf8.DecodeRuneInString(special)
		if n == len(special) {
			return "", fmt.Errorf("%w: a message with the character %q, which is a special token", ErrUnsupported, special)
		}
		if i+n > at {
			out.WriteString(text[at : i+n])
			at = i + n
		}
		out.WriteString(guard)
	}
	out.WriteString(text[at:])
	return out.String(), nil
}

// shortestSpecial returns the shortest special token that text begins with,
// "" if there is none.
func (a *addedTokens) shortestSpecial(text string) (found string) {
	a.words.prefixes(text, func(w word) {
		if found == "" && a.rules[w.id].special {
			found = w.text
		}
	})
	return found
}

// strftime writes a time as C's strftime does, in English.
func strftime(now time.Time, layout string) (string, error) {
	forms := map[byte]string{
		'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'd': "02", 'H': "15", 'I': "03", 'j': "002", 'm': "01",
		'M': "04", 'p': "PM", 'S': "05", 'y': "06", 'Y': "2006", 'Z': "MST", 'z': "-0700", 'F': "2006-01-02", 'T': "15:04:05",
	}
	var out strings.Builder
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' {
			out.WriteByte(layout[i])
			continue
		}
		if i++; i == len(layout) {
			return "", fmt.Errorf("a date of the form %q", layout)
		}
		form, ok := forms[layout[i]]
		switch {
		case layout[i] == '%':
			out.WriteByte('%')
		case ok:
			out.WriteString(now.Format(form))
		default:
			return "", fmt.Errorf("a date of the form %q: %%%c is not built", layout, layout[i])
		}
	}
	return out.String(), nil
}
