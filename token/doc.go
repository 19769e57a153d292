// Package token turns text into the ids that a language model reads, and ids
// into text.
//
// A [Tokenizer] is made from the metadata of a GGUF file, from a Hugging Face
// folder, or from a tokenizer.json: [FromGGUF], [FromFolder],
// [FromTokenizerJSON]. It passes a text through
//
//	added tokens → normalization → pre-tokenization → model → ids
//
// Added tokens are found first, at each place the longest. What lies between
// them is normalized, cut into pieces that no token crosses, and each piece is
// encoded by the model: byte-level BPE, SentencePiece's BPE with byte fallback
// or its unigram model. Merging takes O(n log n) of a piece's length, so that a
// text without a place to cut it is as fast as any other.
//
// [Tokenizer.Encode] never reads a special token, such as <|im_end|>, in a
// text; [Tokenizer.EncodeSpecial] does; [Tokenizer.EncodeChat] reads those of
// the model's chat template and none that a message spells.
//
// The expressions that well-known models cut by are written by hand; others
// run on github.com/dlclark/regexp2, as they look ahead, within a limit of
// time. Vocabularies are taken to be hostile: any bytes give a Tokenizer or an
// error.
package token
