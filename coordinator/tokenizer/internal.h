/* What a tokenizer is made of; for the files of this folder. */
#ifndef TERN_TOKENIZER_INTERNAL_H
#define TERN_TOKENIZER_INTERNAL_H

#include "coordinator/tokenizer/added.h"
#include "coordinator/tokenizer/encode.h"

struct tern_tokenizer {
    struct vocabulary vocabulary;
    struct added added;
    struct splitter *splitter;           /* byte level, else NULL */
    struct bpe *bpe;                     /* byte level, else NULL */
    struct sentencepiece *sentencepiece; /* else NULL */
    struct encoder encoder;
    bool nfc;
    bool space_prefix; /* SentencePiece: a space before every stretch of text */
    bool add_bos, add_eos;
    uint32_t *end; /* tokens that end an answer, rising */
    size_t ends;
    char name[64];
};

#endif
