/* What a tokenizer makes of texts, against ids written as "1 2 3". */
#ifndef TERN_TOKEN_CHECK_H
#define TERN_TOKEN_CHECK_H

#include "coordinator/tokenizer/tokenizer.h"

void check_ids(const struct tern_tokenizer *tokenizer, const struct tern_text *pieces, size_t count,
               bool add_special, const char *wanted);
/* One piece, nothing added. */
void check_text(const struct tern_tokenizer *tokenizer, const char *text, bool special,
                const char *wanted);

#endif
