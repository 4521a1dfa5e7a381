/*
 * The published expressions of every pre-tokenizer, written over codes (unicode.h), and the sets of
 * characters that some of them spell out.
 *
 * Nothing here nests or repeats a group, so a match takes no stack however long a run is. What must
 * give characters back (a run of spaces before a word gives its last one) scans its run once more,
 * so time stays linear.
 */
#include "coordinator/tokenizer/split.h"

#include <string.h>

/* Contents of character classes, by enum unicode_class; only for rules without sets. */
#define LETTER "A-Za-z\\x81-\\x86"
#define NUMBER "0-9\\x88"
#define DIGIT  "0-9\\x88\\x8f"
#define SPACE  "\\t-\\r \\x8b"

#define ASCII_SIGN "!-\\/:-@\\[-`{-~"

/* English contractions; \x83 is the long s, which equals s when case is ignored. */
#define CONTRACTION          "'s|'t|'re|'ve|'m|'ll|'d"
#define CONTRACTION_ANY_CASE "'[sStTmMdD\\x83]|'[rRvV][eE]|'[lL][lL]"

/* A run of spaces, but for its last one if more text follows; then what is left of it. */
#define SPACES "[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"

/* Lines' ends with the spaces before them; else spaces. */
#define LINES "[" SPACE "]*[\\r\\n]++|" SPACES

#define GPT2 CONTRACTION "| ?[" LETTER "]++| ?[" NUMBER "]++| ?[^" SPACE LETTER NUMBER "]++|" SPACES

/* Llama 3 and Qwen2 differ in the digits that stay together only. */
#define LLAMA3(numbers)                                                                            \
    CONTRACTION_ANY_CASE "|[^\\r\\n" LETTER NUMBER "]?[" LETTER "]++|" numbers                     \
                         "| ?[^" SPACE LETTER NUMBER "]++[\\r\\n]*+|" LINES

/* Words of gpt-4o: capitals, then small letters, either of which may be missing; modifiers, letters
 * without case and combining marks count as both. */
#define CAPITAL   "A-Z\\x81\\x84-\\x87\\x8e"
#define SMALL     "a-z\\x82\\x83\\x85-\\x87\\x8e"
#define LEADING   "[^\\r\\n" LETTER NUMBER "]?"
#define SHORTENED "(?:" CONTRACTION_ANY_CASE ")?+"
#define GPT4O                                                                                      \
    LEADING "[" CAPITAL "]*[" SMALL "]++" SHORTENED "|" LEADING "[" CAPITAL "]++[" SMALL           \
            "]*+" SHORTENED "|[" NUMBER "]{1,3}+| ?[^" SPACE LETTER NUMBER "]++[\\r\\n/]*+|" LINES

/* What HF's Punctuation takes. Falcon's digits are looked for among the characters that stand for
 * bytes, six of which are numbers to Unicode: superscript 1 to 3 and the fractions. */
#define FALCON_SIGN  ASCII_SIGN "\\x89\\x8d\\x8e"
#define FALCON_DIGIT "0-9\\xb2\\xb3\\xb9\\xbc-\\xbe"

/* DeepSeek V3; set 1 is Han and kana, which only the second expression tells from the others. */
#define V3_LETTER "A-Za-z\\x81-\\x86\\x91-\\x96"
#define V3_MARK   "\\x87\\x8e\\x97\\x9e"
#define V3_SIGN   ASCII_SIGN "\\x89\\x8a\\x8c\\x8d\\x99\\x9a\\x9c\\x9d"
#define V3_WORDS                                                                                   \
    "[" ASCII_SIGN "][A-Za-z]++|[^\\r\\n" V3_LETTER V3_SIGN "]?[" V3_LETTER V3_MARK                \
    "]++| ?[" V3_SIGN "]++[\\r\\n]*+|" LINES

/* DeepSeek Coder; set 1 is what it takes for Han and Hangul. */
#define CODER_LETTER "A-Za-z\\x81-\\x86\\x91-\\x96"
#define CODER_SIGN   "!-#%-*,-\\/:;?@\\[-\\]_{}\\x89\\x8c\\x99\\x9c"
#define CODER_DIGIT  "0-9\\x88\\x8f\\x98\\x9f"
#define CODER_SPACE  "\\t-\\r \\x8b\\x9b"

/* DeepSeek LLM; set 1 is its alphabet, set 2 its signs (with ASCII letters among them), set 3 what
 * it takes for Han and Hangul. */
#define LLM_LETTER "A-Za-z\\x90-\\x9f\\xb0-\\xbf\\xd0-\\xdf\\xf0-\\xff"
#define LLM_SIGN   "!-\\/:-~\\xa0-\\xbf\\xe0-\\xff"
#define LLM_SPACE  "\\t-\\r \\x8b\\x9b\\xab\\xbb\\xcb\\xdb\\xeb\\xfb"
#define LLM_DIGIT                                                                                  \
    "0-9\\x88\\x8f\\x98\\x9f\\xa8\\xaf\\xb8\\xbf\\xc8\\xcf\\xd8\\xdf\\xe8\\xef\\xf8\\xff"

static const struct unicode_range v3_set[] = {
    {0x3040, 0x30ff, UNICODE_SET_1},
    {0x4e00, 0x9fa5, UNICODE_SET_1},
};

static const struct unicode_range coder_set[] = {
    {0x0800, 0x9fa5, UNICODE_SET_1},
    {0xac00, 0xd7ff, UNICODE_SET_1},
};

#define ALPHABET(first, last)                                                                      \
    {                                                                                              \
        first, last, UNICODE_SET_1                                                                 \
    }

// clang-format off
static const struct unicode_range llm_set[] = {
    ALPHABET(0xb5, 0xb5), ALPHABET(0xc0, 0xd6), ALPHABET(0xd8, 0xf6), ALPHABET(0xf8, 0x1ba),
    ALPHABET(0x1bc, 0x1bf), ALPHABET(0x1c4, 0x293), ALPHABET(0x295, 0x2af), ALPHABET(0x370, 0x373),
    ALPHABET(0x376, 0x377), ALPHABET(0x37b, 0x37d), ALPHABET(0x37f, 0x37f), ALPHABET(0x386, 0x386),
    ALPHABET(0x388, 0x38a), ALPHABET(0x38c, 0x38c), ALPHABET(0x38e, 0x3a1), ALPHABET(0x3a3, 0x3f5),
    ALPHABET(0x3f7, 0x481), ALPHABET(0x48a, 0x52f), ALPHABET(0x531, 0x556),
    ALPHABET(0x10a0, 0x10c5), ALPHABET(0x13a0, 0x13f5), ALPHABET(0x13f8, 0x13fd),
    ALPHABET(0x1c90, 0x1cba), ALPHABET(0x1cbd, 0x1cbf), ALPHABET(0x1d00, 0x1d2b),
    ALPHABET(0x1d6b, 0x1d77), ALPHABET(0x1d79, 0x1d9a), ALPHABET(0x1e00, 0x1f15),
    ALPHABET(0x1f18, 0x1f1d), ALPHABET(0x1f20, 0x1f45), ALPHABET(0x1f48, 0x1f4d),
    ALPHABET(0x1f50, 0x1f57), ALPHABET(0x1f59, 0x1f59), ALPHABET(0x1f5b, 0x1f5b),
    ALPHABET(0x1f5d, 0x1f5d), ALPHABET(0x1f5f, 0x1f7d), ALPHABET(0x1f80, 0x1fb4),
    ALPHABET(0x1fb6, 0x1fbc), ALPHABET(0x1fbe, 0x1fbe), ALPHABET(0x1fc2, 0x1fc4),
    ALPHABET(0x1fc6, 0x1fcc), ALPHABET(0x1fd0, 0x1fd3), ALPHABET(0x1fd6, 0x1fdb),
    ALPHABET(0x1fe0, 0x1fec), ALPHABET(0x1ff2, 0x1ff4), ALPHABET(0x1ff6, 0x1ffc),
    ALPHABET(0x2102, 0x2102), ALPHABET(0x2107, 0x2107), ALPHABET(0x210a, 0x2113),
    ALPHABET(0x2115, 0x2115), ALPHABET(0x2119, 0x211d), ALPHABET(0x2124, 0x2124),
    ALPHABET(0x2126, 0x2126), ALPHABET(0x2128, 0x2128), ALPHABET(0x212a, 0x212d),
    ALPHABET(0x212f, 0x2134), ALPHABET(0x2139, 0x2139), ALPHABET(0x213c, 0x213f),
    ALPHABET(0x2145, 0x2149), ALPHABET(0x214e, 0x214e), ALPHABET(0x2183, 0x2184),
    ALPHABET(0x2c00, 0x2c7b), ALPHABET(0x2c7e, 0x2ce4), ALPHABET(0x2ceb, 0x2cee),
    ALPHABET(0x2cf2, 0x2cf3), ALPHABET(0xa640, 0xa66d), ALPHABET(0xa680, 0xa69b),
    ALPHABET(0xa722, 0xa76f), ALPHABET(0xa771, 0xa787), ALPHABET(0xa78b, 0xa78e),
    ALPHABET(0xab70, 0xabbf), ALPHABET(0xfb00, 0xfb06), ALPHABET(0xfb13, 0xfb17),
    ALPHABET(0xff21, 0xff3a), ALPHABET(0xff41, 0xff5a), ALPHABET(0x10400, 0x1044f),
    ALPHABET(0x104b0, 0x104d3), ALPHABET(0x104d8, 0x104fb), ALPHABET(0x10c80, 0x10cb2),
    ALPHABET(0x10cc0, 0x10cf2), ALPHABET(0x118a0, 0x118df), ALPHABET(0x1e900, 0x1e943),
    {0x2018, 0x201f, UNICODE_SET_2}, {0x3000, 0x3002, UNICODE_SET_2},
    {0xff01, 0xff0f, UNICODE_SET_2}, {0xff1a, 0xff5e, UNICODE_SET_2},
    {0x0800, 0x9fa5, UNICODE_SET_3}, {0xac00, 0xd7ff, UNICODE_SET_3},
};
// clang-format on

#define SET(ranges_) .set = ranges_, .ranges = sizeof ranges_ / sizeof ranges_[0]

#define EXPRESSION(text)                                                                           \
    {                                                                                              \
        .expression = (text)                                                                       \
    }

#define DIGITS_APART                                                                               \
    {                                                                                              \
        .run = DIGIT, .most = 1                                                                    \
    }

#define DEEPSEEK_V3(name_)                                                                         \
    {                                                                                              \
        .name = name_, SET(v3_set), .step = {                                                      \
            {.run = NUMBER, .most = 3},                                                            \
            {.run = "\\x90-\\x9f"},                                                                \
            EXPRESSION(V3_WORDS),                                                                  \
        }                                                                                          \
    }

static const struct split_rule rules[] = {
    {.name = "gpt-2", .step = {EXPRESSION(GPT2)}},
    {.name = "smollm", .step = {DIGITS_APART, EXPRESSION(GPT2)}},
    {.name = "starcoder", .step = {DIGITS_APART, EXPRESSION(GPT2)}},
    {.name = "refact", .step = {DIGITS_APART, EXPRESSION(GPT2)}},
    {.name = "olmo", .step = {EXPRESSION(GPT2)}},
    {.name = "gpt-neox", .step = {EXPRESSION(GPT2)}, .nfc = true},
    {.name = "mpt", .step = {EXPRESSION(GPT2)}, .nfc = true},
    {.name = "falcon",
     .step =
         {
             {.run = FALCON_SIGN},
             EXPRESSION(GPT2),
             {.run = FALCON_DIGIT},
             {.run = "0-9", .least = 3, .most = 3},
         },
     .bytes_from = 2},
    {.name = "llama-bpe",
     .step = {EXPRESSION(LLAMA3("[" NUMBER "]{1,3}+"))},
     .whole_first = true,
     .bos = true},
    {.name = "qwen2", .step = {EXPRESSION(LLAMA3("[" NUMBER "]"))}, .nfc = true},
    {.name = "gpt-4o", .step = {EXPRESSION(GPT4O)}, .whole_first = true},
    DEEPSEEK_V3("deepseek-v3"),
    DEEPSEEK_V3("joyai-llm"),
    {.name = "deepseek-coder",
     SET(coder_set),
     .step =
         {
             {.run = "\\r\\n", .most = 1},
             {.run = CODER_LETTER, .before = CODER_SPACE},
             {.run = CODER_SIGN, .before = CODER_SPACE},
             {.run = "\\x90-\\x9f"},
             {.run = CODER_DIGIT, .most = 1},
         }},
    {.name = "deepseek-llm",
     SET(llm_set),
     .step =
         {
             {.run = "\\r\\n", .most = 1},
             {.run = LLM_LETTER, .before = LLM_SPACE},
             {.run = LLM_SIGN, .before = LLM_SPACE},
             {.run = LLM_SPACE, .at_end = true},
             {.run = "\\xc0-\\xff"},
             {.run = LLM_DIGIT, .most = 1},
         }},
};

const struct split_rule *split_rule_find(struct tern_string name)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (strlen(rules[i].name) == name.length &&
            memcmp(rules[i].name, name.bytes, name.length) == 0)
            return &rules[i];
    return NULL;
}
