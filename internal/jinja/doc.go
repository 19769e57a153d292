// Package jinja renders the Jinja templates that language models carry, with
// the settings that Hugging Face's transformers gives them: trim_blocks,
// lstrip_blocks, break and continue, and no way to reach anything but the
// variables given.
//
// A template is a stranger's program. It runs within a [Budget] of steps and
// bytes; it can read no file, import nothing, and change no value but its own
// namespaces. It is the part of Jinja that chat templates use: if, for, set,
// macro, expressions with filters and tests, and the string and mapping methods
// of Python that they call. Integers have 64 bits and wrap around, and tuples are
// lists. What is not built is an error when the template is
// parsed or when it is reached.
package jinja
