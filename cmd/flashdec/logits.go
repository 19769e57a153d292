package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/model"
	"github.com/flashdec/flashdec/tensorfile"
)

type logitsCmd struct {
	Model string `arg:"" help:"A Hugging Face folder, or a GGUF file."`
	File  string `arg:"" help:"Token ids (numbers, or a safetensors file's input_ids) or text; - is standard input."`
	Out   string `short:"o" required:"" help:"Write logits [tokens, vocabulary] and input_ids to this .safetensors or .npz file." placeholder:"FILE"`
	modelFlags
	JSON bool `name:"json" help:"Print one JSON object."`
}

func (*logitsCmd) Help() string {
	return `A file that holds nothing but numbers, commas, brackets and white space is a list
of token ids, which are whole and not negative; any other is text. The report says
which it was.

Example:

    echo 5,17,3 > ids.txt
    flashdec logits model/testdata/golden/qwen3 ids.txt -o logits.safetensors
`
}

// logitsReport is what logits prints.
type logitsReport struct {
	Tokens     int     `json:"tokens"`
	From       string  `json:"read_from"` // text, or token ids
	Vocabulary int     `json:"vocabulary"`
	Rate       float64 `json:"tokens_per_second"`
	Output     string  `json:"output"`
}

// logitsAtOnce is how many tokens are fed at a time: their logits are computed where they are kept.
const logitsAtOnce = 64

func (cmd *logitsCmd) Run(i *interrupt, t *terminal) (err error) {
	if err := i.unbroken(func() error { return checkOutput(cmd.Out, cmd.File, ".safetensors", ".npz") }); err != nil {
		return err
	}
	if err := notOfModel(cmd.Out, cmd.Model); err != nil {
		return err
	}
	l, err := cmd.load(cmd.Model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	ids, from, err := l.readTokens(cmd.File)
	if err != nil {
		return err
	}
	r, err := l.runner(&cmd.modelFlags, cmd.KVDType)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	vocab := r.Config().VocabSize
	if err := cmd.checkLength(quotePath(cmd.File), len(ids), r); err != nil {
		return err
	}
	cmd.tellReach(t, r.Config())
	ctx := i.context()
	room, err := logitsBytes(len(ids), vocab)
	if err != nil {
		return err
	}
	if err := checkRoom(cmd.Out, room); err != nil {
		return err
	}
	logits, odd, err := logitsOf(ctx, t, r, ids)
	if err != nil {
		return err
	}
	if err := tensorfile.WriteContext(ctx, cmd.Out, []tensorfile.Tensor{
		singles("logits", logits, []int{len(ids), vocab}), integersTensor("input_ids", ids),
	}, nil); err != nil {
		return err
	}
	if odd >= 0 {
		fmt.Fprintf(t.errs, "flashdec: not all logits are finite numbers: the first that is not is token %d's of id %d, %v\n", odd/vocab, odd%vocab, logits[odd])
	}
	s := r.Stats()
	report := logitsReport{len(ids), from, vocab, float64(s.Tokens) / max(s.Seconds, 1e-9), cmd.Out}
	if cmd.JSON {
		return t.emit(report)
	}
	what := count(len(ids), "token id")
	if from == fromText {
		what = count(len(ids), "token") + " of text"
	}
	t.printf("wrote the logits of %s to %s\n", what, quotePath(cmd.Out))
	return nil
}

// logitsBytes is what the logits [tokens, vocab] and the ids [tokens] take, an error if more than an int counts.
func logitsBytes(tokens, vocab int) (int, error) {
	const element = 4
	if vocab >= math.MaxInt/element || tokens > math.MaxInt/(element*(vocab+1)) {
		return 0, fmt.Errorf("the logits of %s and a vocabulary of %d are more bytes than this system can count: give fewer tokens",
			count(tokens, "token"), vocab)
	}
	return element * tokens * (vocab + 1), nil
}

// logitsOf computes the logits of all tokens [len(ids), VocabSize]; odd is the place of the first that is no finite
// number, or negative.
func logitsOf(ctx context.Context, t *terminal, r *model.Runner, ids []int) (logits []float32, odd int, err error) {
	vocab := r.Config().VocabSize
	logits, odd = make([]float32, len(ids)*vocab), -1
	b := t.bar(len(ids), "computing logits")
	defer b.done()
	seq := r.NewSequence()
	for first := 0; first < len(ids); first += logitsAtOnce {
		end := min(first+logitsAtOnce, len(ids))
		part := logits[first*vocab : end*vocab]
		if err := r.Forward(ctx, model.Part{Seq: seq, IDs: ids[first:end], Logits: part}); err != nil {
			return nil, 0, err
		}
		if odd < 0 {
			if at := slices.IndexFunc(part, func(x float32) bool { return !simd.Finite(x) }); at >= 0 {
				odd = first*vocab + at
			}
		}
		b.steps(end - first)
	}
	return logits, odd, nil
}

// integersTensor is ids, which fit 31 bits, as I32.
func integersTensor(name string, ids []int) tensorfile.Tensor {
	data := make([]byte, 4*len(ids))
	for i, id := range ids {
		binary.LittleEndian.PutUint32(data[4*i:], uint32(id))
	}
	return tensorfile.Tensor{Name: name, DType: tensorfile.I32, Shape: []int{len(ids)}, Data: data}
}
