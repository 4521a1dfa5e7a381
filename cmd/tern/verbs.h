/* The verbs of `tern`, one file each (verb_NAME.c). */
#ifndef TERN_CMD_VERBS_H
#define TERN_CMD_VERBS_H

#include "cmd/tern/options.h"
#include <stddef.h>

/* All verbs; *count of them. */
const struct verb *all_verbs(size_t *count);

int verb_bench(const struct verb *verb, int argc, char **argv);
int verb_chat(const struct verb *verb, int argc, char **argv);
int verb_completion(const struct verb *verb, int argc, char **argv);
int verb_detokenize(const struct verb *verb, int argc, char **argv);
int verb_doctor(const struct verb *verb, int argc, char **argv);
int verb_info(const struct verb *verb, int argc, char **argv);
int verb_load(const struct verb *verb, int argc, char **argv);
int verb_import(const struct verb *verb, int argc, char **argv);
int verb_logits(const struct verb *verb, int argc, char **argv);
int verb_logs(const struct verb *verb, int argc, char **argv);
int verb_ls(const struct verb *verb, int argc, char **argv);
int verb_man(const struct verb *verb, int argc, char **argv);
int verb_plan(const struct verb *verb, int argc, char **argv);
int verb_ps(const struct verb *verb, int argc, char **argv);
int verb_rm(const struct verb *verb, int argc, char **argv);
int verb_run(const struct verb *verb, int argc, char **argv);
int verb_serve(const struct verb *verb, int argc, char **argv);
int verb_stop(const struct verb *verb, int argc, char **argv);
int verb_tokenize(const struct verb *verb, int argc, char **argv);
int verb_unload(const struct verb *verb, int argc, char **argv);
int verb_version(const struct verb *verb, int argc, char **argv);

#endif
