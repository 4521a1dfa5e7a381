/* tern: the command line client. Finds the verb and hands over; all else is in verb_*.c. */
#include "cmd/tern/nearest.h"
#include "cmd/tern/output.h"
#include "cmd/tern/standard_files.h"
#include "cmd/tern/verbs.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const struct verb verbs[] = {
    {"run", "MODEL [PROMPT...]", "Answer a prompt. Starts the service when none runs.",
     "PROMPT comes from standard input when it is \"-\", or absent and standard input is no\n"
     "terminal. The model's chat template is applied unless --raw.\n\n"
     "  tern run smollm2-135m \"Why is the sky blue?\"\n"
     "  git diff | tern run model.gguf --system \"Write a commit message\"\n\n"
     "--json: text (null without a tokenizer), ids, reason (stop, length), prompt_tokens, reused\n"
     "(of the prompt, not computed again), tokens, context, seed (a string from 2^63 on),\n"
     "prompt_s, decode_s, and with --logprobs: logprobs [{id, token, logprob, top [{id, token,\n"
     "logprob}]}]. Bytes that are no UTF-8 are U+FFFD.\n",
     verb_run},
    {"chat", "MODEL", "Talk with a model. Starts the service when none runs.",
     "Each line is a turn; /help lists the commands. In a pipe each line of standard input is a\n"
     "turn, answers go to standard output, and the exit code is that of the first failure.\n\n"
     "--json: answer, and reason, prompt_tokens, reused, tokens, context, seed, prompt_s and\n"
     "decode_s as tern run prints them; or error (a message) and status (an exit code), also when\n"
     "a command fails or a line is no text. A command that succeeds prints no object.\n",
     verb_chat},
    {"load", "MODEL", "Load a model and keep it loaded until tern unload.", NULL, verb_load},
    {"unload", "MODEL", "Unload a model.", NULL, verb_unload},
    {"ps", "", "Show the service's processes and models, and what they are doing.",
     "--json: coordinator {pid, version, uptime_s, rss_bytes, pss_bytes}, workers [{role, pid,\n"
     "state, restarts, calls, rss_bytes, pss_bytes}], models [{model, state, pinned, requests,\n"
     "running, queued, paused (their clients do not read), context, threads, tier, batch,\n"
     "precision, kv, unfused, planned_bytes, resident_bytes, pages, pages_used (by sessions),\n"
     "pages_kept (for what may come back), pages_free, page_positions, tokens}], memory,\n"
     "requests, running, queued, paused, tokens {prompt, decode, steps, per_s, per_s_computing}:\n"
     "tokens in all, and tokens a second in the last five seconds and while computing. Sizes are\n"
     "bytes.\n",
     verb_ps},
    {"ls", "", "List the models in the cache.",
     "--json: a list of {name, bytes, modified (seconds since 1970), path}.\n", verb_ls},
    {"import", "FILE", "Bring a model file into the cache, if it is one that runs.",
     "Takes no more disk space where the cache is on the same file system.\n", verb_import},
    {"rm", "NAME...", "Remove models from the cache.", NULL, verb_rm},
    {"info", "MODEL", "Show what a model file holds and needs, and whether it can run here.",
     "--json: path, bytes, architecture, name, parameters, tensors {count, bytes, types}, "
     "context,\n"
     "layers and other sizes, vocabulary, tokenizer, chat_template, chat, loaded, memory\n"
     "{available_bytes, default_context, needs [{context, kv, weights_bytes, kv_bytes,\n"
     "buffers_bytes, total_bytes, fits}]}, supported, unsupported (why tern run refuses it), "
     "notes,\n"
     "and with --metadata: metadata [{key, type, count, value}], long values cut.\n",
     verb_info},
    {"plan", "MODEL", "Show the steps and the memory that a model is compiled to.", NULL,
     verb_plan},
    {"tokenize", "MODEL", "Turn standard input, unchanged, into a JSON list of token ids.", NULL,
     verb_tokenize},
    {"detokenize", "MODEL", "Turn a JSON list of token ids on standard input into text.", NULL,
     verb_detokenize},
    {"logits", "MODEL --tokens FILE -o OUT",
     "Write the logits of every position: float32, little-endian, a row of the vocabulary each.",
     NULL, verb_logits},
    {"bench", "MODEL", "Measure the speed of prompts and of decoding.",
     "-o json: a list of {n_prompt, n_gen, n_threads, avg_ts, samples_ts (tokens a second)};\n"
     "of decoding also overhead_us, a token's time outside the worker.\n",
     verb_bench},
    {"stop", "", "End the service.", NULL, verb_stop},
    {"logs", "", "Show what the service has logged.",
     "--json prints an object a line: time, level, process, message; time and process are null\n"
     "for what libraries wrote by themselves.\n",
     verb_logs},
    {"serve", "", "Run the service in the foreground, its log on standard error.", NULL,
     verb_serve},
    {"completion", "bash|zsh|fish|models", "Print a completion script for a shell.",
     "  bash: source <(tern completion bash)\n"
     "  zsh:  tern completion zsh > FOLDER/_tern, FOLDER being one of $fpath\n"
     "  fish: tern completion fish | source\n"
     "models prints the names of the cached models, one a line.\n",
     verb_completion},
    {"version", "", "Show the version.", NULL, verb_version},
    {"doctor", "", "Show what this machine offers, what is missing and how to get it.",
     "Starts no service. Each line is ok, a note or a problem, the latter with a remedy; the exit\n"
     "code is 1 when there is a problem.\n\n"
     "--json: version, problems, notes (counts), checks {NAME: {state (ok, note, problem), text,\n"
     "remedy (or null), and figures}}; null is what is unknown or unlimited. Figures by NAME:\n"
     "  processors  online, cores, allowed, quota_cores, threads\n"
     "  tiers       available, chosen\n"
     "  memory      total_bytes, available_bytes, usable_bytes (by models)\n"
     "  cgroup      version, memory_limit_bytes, memory_used_bytes, quota_cores\n"
     "  huge_pages  shmem_enabled\n"
     "  bandwidth   buffer_bytes, cache_bytes, one_gb_per_s, threads, gb_per_s\n"
     "  clock       source, read_ns\n"
     "  kernel      release, machine, pidfd\n"
     "  limits      open_files, open_files_most, locked_bytes, address_bytes, stack_bytes\n"
     "  seccomp, io_uring      available\n"
     "  cache, runtime, state  path, writable, free_bytes; of cache also exists\n"
     "  service     running, pid, version\n"
     "  programs    ternd, tern-loader, tern-cpu (paths)\n"
     "  packages    missing (names of libraries)\n",
     verb_doctor},
};

/* For the build, not for a person: --help does not list them. */
static const struct verb hidden_verbs[] = {
    {"man", "[tern|ternd]", "Print a manual page.", NULL, verb_man},
};

enum { VERBS = sizeof verbs / sizeof verbs[0] };

static const struct verb *find_verb(const char *name)
{
    for (int i = 0; i < VERBS; i++)
        if (strcmp(name, verbs[i].name) == 0)
            return &verbs[i];
    for (size_t i = 0; i < sizeof hidden_verbs / sizeof hidden_verbs[0]; i++)
        if (strcmp(name, hidden_verbs[i].name) == 0)
            return &hidden_verbs[i];
    return NULL;
}

/* What somebody may call a verb. */
static const struct {
    const char *name, *verb;
} other_names[] = {
    {"list", "ls"},   {"delete", "rm"}, {"remove", "rm"},   {"add", "import"},
    {"show", "info"}, {"status", "ps"}, {"start", "serve"},
};

static int unknown_verb(const char *name)
{
    enum { OTHERS = sizeof other_names / sizeof other_names[0] };
    const char *names[VERBS + OTHERS], *near;
    for (int i = 0; i < VERBS; i++)
        names[i] = verbs[i].name;
    for (int i = 0; i < OTHERS; i++)
        names[VERBS + i] = other_names[i].name;
    if (nearest_names(name, names, VERBS + OTHERS, &near, 1) == 0) {
        fprintf(stderr, "tern: unknown verb '%s'; tern --help lists them\n", name);
        return TERN_USAGE;
    }
    for (int i = 0; i < OTHERS; i++)
        if (near == other_names[i].name)
            near = other_names[i].verb;
    fprintf(stderr, "tern: unknown verb '%s'; did you mean '%s'? tern --help lists them\n", name,
            near);
    return TERN_USAGE;
}

const struct verb *all_verbs(size_t *count)
{
    *count = VERBS;
    return verbs;
}

static void print_usage(FILE *out)
{
    fprintf(out, "usage: tern VERB ...\n\nRuns language models on this machine.\n\n");
    for (int i = 0; i < VERBS; i++)
        fprintf(out, "  %-11s %s\n", verbs[i].name, verbs[i].summary);
    fprintf(
        out,
        "\n  tern VERB --help tells what a verb takes. MODEL is the path of a GGUF file or the\n"
        "  name of a model that tern ls shows.\n\n"
        "exit codes: 0 fine, 1 failure, 2 usage, 3 no usable model file, 4 not enough memory or\n"
        "context, 5 not supported, 6 request given up, 7 no service, 130 interrupted\n");
}

/* tern help VERB */
static int help_of(const char *name)
{
    char help[] = "--help";
    const struct verb *verb = find_verb(name);
    if (verb == NULL)
        return unknown_verb(name);
    return finish_output(verb->run(verb, 2, (char *[]){(char *)(uintptr_t)verb->name, help, NULL}));
}

/* What the caller's limits and mask would break: a file over the size limit is an error to tell of,
 * and the owner can use what is made. */
static void prepare_process(void)
{
    standard_files_prepare();
    signal(SIGXFSZ, SIG_IGN);
    umask(umask(0) & ~(mode_t)S_IRWXU);
}

int main(int argc, char **argv)
{
    prepare_process();
    if (argc < 2) {
        print_usage(stderr);
        return TERN_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        if (argc > 2)
            return help_of(argv[2]);
        print_usage(stdout);
        return finish_output(0);
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("tern %s\n", TERN_VERSION);
        return finish_output(0);
    }
    const struct verb *verb = find_verb(argv[1]);
    if (verb != NULL)
        return finish_output(verb->run(verb, argc - 1, argv + 1));
    return unknown_verb(argv[1]);
}
