// Package sample chooses the next token from a model's logits, and ends a
// text at a stop string.
//
// A [Chain] applies, in this order,
//
//  1. the repetition penalty: a logit x of an id seen in the window becomes
//     x/penalty where x > 0 and x·penalty where x ≤ 0, once an id (Keskar et
//     al., CTRL, 2019);
//  2. temperature: x/T. T = 0 is greedy: the largest logit, and of equal ones
//     that of the lowest id; nothing that follows is applied;
//  3. top-k: the k largest logits;
//  4. top-p: the fewest of the largest whose probabilities, normalised over
//     what top-k left, sum to p or more (Holtzman et al., 2020);
//  5. min-p: those at least p times as probable as the most probable one
//     (Nguyen et al., 2024);
//  6. one draw from what is left, in proportion to the probabilities.
//
// This is the order of Hugging Face's transformers. llama.cpp divides by the
// temperature last, so that its top-p and min-p are those of T = 1; with
// T = 1, or with top-k alone, the two agree.
//
// Equal logits are ordered by id, lowest first. Logits of −Inf are never
// drawn. A NaN or a +Inf says that the model has gone wrong and is an error.
// The same options, seed and logits draw the same ids on every machine whose
// exp rounds alike.
package sample
