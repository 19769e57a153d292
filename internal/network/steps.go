package network

import (
	"context"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/kv"
)

// Device computes networks. It may be used by several runners at once.
type Device interface {
	// Open brings what a network's steps need to the device.
	Open(n *Network, o Options) (Steps, error)
}

// Options say what steps are opened for.
type Options struct {
	// Plan plans the attention of all layers of a kind, for sequences of so many keys, the new ones counted,
	// and new tokens.
	Plan func(k Kind, lens, queries []int) (*flashdec.Step, error)
	// Cache describes the cache of a layer of a kind.
	Cache [NumKinds]kv.Config
	// MaxTokens is the most tokens of a batch.
	MaxTokens int
}

// Cache holds keys and values of some layers, all of a kind. They share pages: a sequence of a model is one
// sequence a cache.
type Cache struct {
	*kv.Cache
	Kind Kind
}

// Batch is some new tokens of some sequences, each sequence's after those of the one before.
type Batch struct {
	IDs       []int            // [tokens]
	Positions []int            // [tokens] of each in its sequence, for the angles
	Queries   []int            // [sequences] new tokens of each
	Lens      [NumKinds][]int  // [sequences] keys in caches of a kind, the new ones counted
	Seqs      [][]*kv.Sequence // [caches][sequences], without the new keys
	Rows      []int            // tokens whose logits are wanted
	Logits    [][]float32      // [len(Rows)][VocabSize] where these go
}

// Steps are what a forward pass is made of, over buffers of the device: x [tokens, HiddenSize], the residual
// stream; queries, keys, values and attention's output of the layer under way; the MLP's hidden values. A norm
// that is nil is none. One batch at a time.
type Steps interface {
	// Caches are those of the network's layers, made when the steps were opened.
	Caches() []Cache
	// Run computes a batch. pass calls the steps below in their order; a device that has recorded the pass of
	// a batch of the same form may replay that instead. When it fails, some caches have the new keys and
	// others have not.
	Run(ctx context.Context, b *Batch, pass func() error) error

	Embed() error                                // x = EmbedScale · the tokens' rows of Embedding
	Project(layer int) error                     // q, k, v = Query, Key, Value · AttnNorm(x)
	Attend(ctx context.Context, layer int) error // norms of q and k, angles, k and v into the cache, attention
	AddAttention(layer int) error                // x += PostAttnNorm(Out · attention's output)
	Gate(layer int) error                        // hidden = act(Gate · MLPNorm(x)) · (Up · MLPNorm(x))
	AddMLP(layer int) error                      // x += PostMLPNorm(Down · hidden)
	Experts(layer int) error                     // x += PostMLPNorm(the chosen experts' answers, weighed)
	Head() error                                 // the wanted logits = softcap(Head · Norm(x))

	// Attending is how many seconds attention took, from planning to the last merge, in all batches so far; 0
	// where the device cannot tell.
	Attending() float64
	// WeightBytes is the size of the weights that one token reads, as they lie on the device: of the embedding
	// one row, unless it is the head, too, and of a mixture the experts that a token takes.
	WeightBytes() int
	// Close gives back what Open took, caches included.
	Close() error
}
