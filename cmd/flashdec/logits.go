package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
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
of token ids; any other is text.

Example:

    echo 5,17,3 > ids.txt
    flashdec logits model/testdata/golden/qwen3 ids.txt -o logits.safetensors
`
}

// logitsReport is what logits prints.
type logitsReport struct {
	Tokens     int     `json:"tokens"`
	Vocabulary int     `json:"vocabulary"`
	Rate       float64 `json:"tokens_per_second"`
	Output     string  `json:"output"`
}

// logitsAtOnce is how many tokens are fed at a time: their logits are computed where they are kept.
const logitsAtOnce = 64

func (cmd *logitsCmd) Run(ctx context.Context, t *terminal) (err error) {
	if err := checkOutput(cmd.Out, cmd.File, ".safetensors", ".npz"); err != nil {
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
	ids, err := l.readTokens(ctx, cmd.File)
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
	logits := make([]float32, len(ids)*vocab)
	b := t.bar(len(ids), "computing logits")
	defer b.done()
	seq := r.NewSequence()
	for i := 0; i < len(ids); i += logitsAtOnce {
		end := min(i+logitsAtOnce, len(ids))
		if err := r.Forward(ctx, model.Part{Seq: seq, IDs: ids[i:end], Logits: logits[i*vocab : end*vocab]}); err != nil {
			return err
		}
		b.steps(end - i)
	}
	if err := tensorfile.WriteContext(ctx, cmd.Out, []tensorfile.Tensor{
		singles("logits", logits, []int{len(ids), vocab}), integersTensor("input_ids", ids),
	}, nil); err != nil {
		return err
	}
	if at := slices.IndexFunc(logits, func(x float32) bool { return !simd.Finite(x) }); at >= 0 {
		fmt.Fprintf(t.errs, "flashdec: not all logits are finite numbers: the first that is not is token %d's of id %d, %v\n", at/vocab, at%vocab, logits[at])
	}
	s := r.Stats()
	report := logitsReport{len(ids), vocab, float64(s.Tokens) / max(s.Seconds, 1e-9), cmd.Out}
	if cmd.JSON {
		return t.emit(report)
	}
	t.printf("wrote the logits of %s to %s\n", count(len(ids), "token"), quotePath(cmd.Out))
	return nil
}

// integersTensor is ids, which fit 31 bits, as I32.
func integersTensor(name string, ids []int) tensorfile.Tensor {
	data := make([]byte, 4*len(ids))
	for i, id := range ids {
		binary.LittleEndian.PutUint32(data[4*i:], uint32(id))
	}
	return tensorfile.Tensor{Name: name, DType: tensorfile.I32, Shape: []int{len(ids)}, Data: data}
}
