/* Tokenizer at run time: text <-> ids, from the tokenizer.* keys of a GGUF file (docs/gguf.md)
 * alone.
 *
 * Kinds: "gpt2" (byte-level BPE; pre-tokenizers: fy_pretok_list), "llama" (SentencePiece BPE with
 * byte fallback), "gemma4" (the same with ranked merges), "t5" (SentencePiece Unigram) and "rwkv"
 * (World). Immutable after load: any number of threads may share it. Pieces may hold NULs:
 * everything is ptr + len. Owns copies of what it needs: the fy_gguf may be closed after load. */
#ifndef FY_VOCAB_H
#define FY_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "format/gguf.h"
#include "grammar/grammar.h"

/* Longest token that is looked for at every place of a text, so that the search takes linear time:
 * all tokens but the ordinary ones of a byte-level BPE. The longest token of a published tokenizer
 * has 512 bytes. */
enum { FY_SEARCHED_BYTES_MAX = 1024 };

/* Own keys, where the standard has none (docs/gguf.md). convert writes them, fy_vocab_load reads
 * them. */
#define FY_KEY_EOS_IDS    "ferry.eos_token_ids" /* i32[]: every EOS id of the checkpoint */
#define FY_KEY_NORMALIZER "ferry.normalizer"    /* string: "nfc", "none" */
#define FY_KEY_ADDED_FLAGS \
    "ferry.added_token_flags" /* u8[n_tokens], FY_ADDED_* bits; absent: all 0 */
/* string: when a space goes before a text, for add_space_prefix = true. Absent or "prepend": before
 * every text fragment (SentencePiece, Prepend). "metaspace": likewise, but not before a fragment
 * that begins with a space. "metaspace-first": as "metaspace", and only at the very start of the
 * text. */
#define FY_KEY_SPACE_PREFIX "ferry.space_prefix"
/* bool: decoding takes a space off the beginning of a text although add_space_prefix is false
 * (InternLM2). */
#define FY_KEY_STRIPS_SPACE "ferry.strips_leading_space"
/* bool: a word that is a token is not merged. Absent: as tokenizer.ggml.pre means it. */
#define FY_KEY_IGNORE_MERGES "ferry.ignore_merges"
/* string: whose rules a "t5" vocabulary follows where they differ. "sentencepiece" or absent;
 * "tokenizers": those of the tokenizers library, with whose Metaspace the text is cut in words;
 * "tokenizers-words": the same after its WhitespaceSplit. */
#define FY_KEY_UNIGRAM "ferry.unigram"
/* u8[], the standard's: SentencePiece's normaliser map, of a "t5" vocabulary. */
#define FY_KEY_CHARSMAP "tokenizer.ggml.precompiled_charsmap"
enum {
    FY_ADDED_LSTRIP = 1,
    FY_ADDED_RSTRIP = 2,
    FY_ADDED_SINGLE_WORD = 4,
    FY_ADDED_NORMALIZED = 8,
    FY_ADDED_MERGED = 16 /* SentencePiece: merging its characters makes it, too */
};

#define FY_BLANK "\xE2\x96\x81" /* U+2581, SentencePiece's spelling of a space */
/* Writes text to out[0..text.len) with every FY_BLANK as a space; returns the length. */
size_t fy_unspell_blanks(char *out, fy_span text);

/* What a piece of an RWKV vocabulary spells (tokenizer.ggml.tokens of "rwkv"): at most text.len
 * bytes to out; returns how many. */
size_t fy_rwkv_unescape(char *out, fy_span piece);

/* How byte-level BPE writes a byte, in its byte alphabet. */
void fy_bpe_spell_byte(uint8_t byte, char out[3], size_t *len);

typedef struct fy_vocab fy_vocab;

typedef enum { /* tokenizer.ggml.token_type */
               FY_TOKEN_UNDEFINED = 0,
               FY_TOKEN_NORMAL,
               FY_TOKEN_UNKNOWN,
               FY_TOKEN_CONTROL,
               FY_TOKEN_USER,
               FY_TOKEN_UNUSED,
               FY_TOKEN_BYTE,
} fy_token_type;

fy_vocab *fy_vocab_load(const fy_gguf *g, fy_err *e); /* NULL on failure */
void fy_vocab_free(fy_vocab *v);                      /* NULL is fine */

uint32_t fy_vocab_n(const fy_vocab *v);
fy_span fy_vocab_piece(const fy_vocab *v, int32_t id); /* text as stored; empty for a bad id */
fy_token_type fy_vocab_type(const fy_vocab *v, int32_t id);
int32_t fy_vocab_find(const fy_vocab *v, fy_span piece); /* stored text -> id, -1 */
bool fy_vocab_adds_bos(const fy_vocab *v);
/* What ends an answer where no token does: the text with which the user's next turn begins. Empty:
 * tokens do. */
fy_span fy_vocab_turn_text(const fy_vocab *v);
int32_t fy_vocab_bos(const fy_vocab *v); /* -1: none */
/* Ends generation: every EOS id of the file, EOT and EOM, and those known by text. */
bool fy_vocab_is_eog(const fy_vocab *v, int32_t id);
/* Marks of a prompt that asks for what stands between two texts, and of files around it. */
typedef enum {
    FY_FIM_PRE, /* before the text that comes first */
    FY_FIM_SUF,
    FY_FIM_MID, /* what is asked for follows */
    FY_FIM_REP, /* a repository begins */
    FY_FIM_SEP, /* a file begins */
    FY_FIM_COUNT,
} fy_fim_mark;
int32_t fy_vocab_fim(const fy_vocab *v, fy_fim_mark m); /* -1: none */
/* May it be sampled? False for padding rows and unused entries, and for ids beyond the vocabulary.
 */
bool fy_vocab_is_samplable(const fy_vocab *v, int32_t id);

typedef struct {
    int32_t *id; /* owned */
    size_t n, cap;
} fy_ids;
int fy_ids_push(fy_ids *ids, int32_t id, fy_err *e);
int fy_ids_append(fy_ids *ids, const int32_t *more, size_t n, fy_err *e);
void fy_ids_release(fy_ids *ids);

/* Appends the ids of text (invalid UTF-8 is handled byte by byte, never an error).
 * add_special: bos/eos as the model asks. parse_special: control tokens in the text become their
 * ids (user-defined tokens always do). */
int fy_vocab_encode(const fy_vocab *v, fy_span text, bool add_special, bool parse_special,
                    fy_ids *out, fy_err *e);

/* Appends the text of ids, control tokens as their text when `specials`, else nothing. The whole
 * sequence at once: a leading space that encoding added is removed. */
int fy_vocab_decode(const fy_vocab *v, const int32_t *ids, size_t n, bool specials, fy_str *out,
                    fy_err *e);

/* Streaming: the bytes of one token in the middle of a text (no leading-space rule, may be part of
 * a UTF-8 character). Nothing for control tokens unless `specials`. */
int fy_vocab_decode_one(const fy_vocab *v, int32_t id, bool specials, fy_str *out, fy_err *e);

/* The byte strings of the tokens for masks over n_ids logits. Those that may not be sampled, control
 * tokens and padding have none; end tokens are marked as such. */
fy_trie *fy_vocab_trie(const fy_vocab *v, uint32_t n_ids, fy_err *e);
/* The same, but control tokens that is_text says yes to have their names as text. */
typedef bool fy_vocab_is_text(const void *user, fy_span piece);
fy_trie *fy_vocab_trie_with(const fy_vocab *v, uint32_t n_ids, fy_vocab_is_text *is_text,
                            const void *user, fy_err *e);

bool fy_is_white_space(uint32_t c); /* White_Space of Unicode */

/* Appends "name version\n" of each library that tokenizing takes. */
void fy_vocab_libraries(fy_str *out);

#endif
