#include "proto/tensor.h"

/* Block sizes: GGUF specification; ids 36, 41, 42, 142: FORMATS. The integer-only types (24..28)
 * and the repacked ones have no kernels and are refused by name. */
static const struct tern_type_info types[] = {
    [TERN_F32] = {"F32", 1, 4, 0, true},
    [TERN_F16] = {"F16", 1, 2, 0, true},
    [TERN_Q4_0] = {"Q4_0", 32, 18, 32, true},
    [TERN_Q4_1] = {"Q4_1", 32, 20, 32, true},
    [TERN_Q5_0] = {"Q5_0", 32, 22, 32, true},
    [TERN_Q5_1] = {"Q5_1", 32, 24, 32, true},
    [TERN_Q8_0] = {"Q8_0", 32, 34, 32, true},
    [9] = {"Q8_1", 32, 36, 0, false},
    [10] = {"Q2_K", 256, 84, 0, false},
    [11] = {"Q3_K", 256, 110, 0, false},
    [TERN_Q4_K] = {"Q4_K", 256, 144, 256, true},
    [TERN_Q5_K] = {"Q5_K", 256, 176, 256, true},
    [TERN_Q6_K] = {"Q6_K", 256, 210, 256, true},
    [15] = {"Q8_K", 256, 292, 0, false},
    [16] = {"IQ2_XXS", 256, 66, 0, false},
    [17] = {"IQ2_XS", 256, 74, 0, false},
    [18] = {"IQ3_XXS", 256, 98, 0, false},
    [19] = {"IQ1_S", 256, 50, 0, false},
    [20] = {"IQ4_NL", 32, 18, 0, false},
    [21] = {"IQ3_S", 256, 110, 0, false},
    [22] = {"IQ2_S", 256, 82, 0, false},
    [23] = {"IQ4_XS", 256, 136, 0, false},
    [24] = {"I8", 1, 1, 0, false},
    [25] = {"I16", 1, 2, 0, false},
    [26] = {"I32", 1, 4, 0, false},
    [27] = {"I64", 1, 8, 0, false},
    [28] = {"F64", 1, 8, 0, false},
    [29] = {"IQ1_M", 256, 56, 0, false},
    [TERN_BF16] = {"BF16", 1, 2, 0, true},
    [34] = {"TQ1_0", 256, 54, 0, false},
    [35] = {"TQ2_0", 256, 66, 0, false},
    [36] = {"I2_S", 128, 32, 0, false},
    [39] = {"MXFP4", 32, 17, 0, false},
    [40] = {"NVFP4", 64, 36, 0, false},
    [41] = {"Q1_0", 128, 18, 0, false},
    [42] = {"Q2_0", 64, 18, 0, false},
    [142] = {"PQ2_0", 128, 34, 0, false},
};

const struct tern_type_info *tern_type_info(uint32_t id)
{
    if (id >= sizeof types / sizeof types[0] || types[id].name == NULL)
        return NULL;
    return &types[id];
}

struct tern_act tern_type_act(uint32_t type, enum tern_precision precision)
{
    const struct tern_type_info *info = tern_type_info(type);
    if (info == NULL || info->act_block == 0)
        return (struct tern_act){0, 0};
    return (struct tern_act){.block = info->act_block, .bits = (uint16_t)precision};
}

bool tern_row_bytes(uint32_t type, uint64_t columns, uint64_t *bytes)
{
    const struct tern_type_info *info = tern_type_info(type);
    if (info == NULL || columns == 0 || columns % info->block != 0)
        return false;
    return tern_mul(columns / info->block, info->bytes, bytes);
}
