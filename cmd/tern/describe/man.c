#include "cmd/tern/describe/describe.h"
#include "cmd/tern/verbs.h"

#include <stdio.h>
#include <string.h>

/* Text for roff: a hyphen that is typed is \-, and no line begins with a control character. */
static void print_roff(const char *text)
{
    bool begins = true;
    for (; *text != '\0'; text++) {
        if (begins && (*text == '.' || *text == '\''))
            printf("\\&");
        if (*text == '\\')
            printf("\\e");
        else if (*text == '-')
            printf("\\-");
        else
            putchar(*text);
        begins = *text == '\n';
    }
}

static void print_option(const struct option *option)
{
    printf(".TP\n\\fB");
    print_roff(option_dashes(option));
    print_roff(option->name);
    printf("\\fR");
    if (option->kind != OPTION_FLAG) {
        printf(" \\fI");
        print_roff(option->choices != NULL ? option->choices : "N");
        printf("\\fR");
    }
    printf("\n");
    print_roff(option->help);
    printf("\n");
}

static void print_verb(void *context, const struct verb *verb, const struct option *options)
{
    (void)context;
    printf(".SS \"tern %s %s\"\n", verb->name, verb->arguments);
    print_roff(verb->summary);
    printf("\n");
    for (; options->name != NULL; options++)
        print_option(options);
    if (verb->details != NULL) {
        printf(".PP\n.nf\n");
        print_roff(verb->details);
        printf(".fi\n");
    }
}

void describe_man_tern(void)
{
    size_t count;
    const struct verb *verbs = all_verbs(&count);
    printf(".TH TERN 1 \"\" \"tern %s\" \"User Commands\"\n"
           ".SH NAME\ntern \\- run language models on this machine\n"
           ".SH SYNOPSIS\n.B tern\n.I VERB\n[\\fIARGUMENT\\fR...] [\\fIOPTION\\fR...]\n"
           ".SH DESCRIPTION\n"
           "MODEL is the path of a GGUF file or the name of a cached model. Defaults of options "
           "are in parentheses.\n.SH VERBS\n",
           TERN_VERSION);
    for (size_t i = 0; i < count; i++)
        options_visit(&verbs[i], print_verb, NULL);
    printf(".SH EXIT STATUS\n"
           "0 fine, 1 failure, 2 usage, 3 no usable model file, 4 not enough memory or context,\n"
           "5 not supported, 6 request given up, 7 no service, 130 interrupted.\n"
           ".SH FILES\n"
           ".TP\n.I $XDG_CACHE_HOME/tern/models\nmodels that have a name\n"
           ".TP\n.I $XDG_STATE_HOME/tern/ternd.log\nthe service's log\n"
           ".TP\n.I $XDG_STATE_HOME/tern/history\nwhat was typed in chats\n"
           ".SH SEE ALSO\n.BR ternd (8)\n");
}

void describe_man_ternd(void)
{
    printf(".TH TERND 8 \"\" \"tern %s\" \"System Administration\"\n"
           ".SH NAME\nternd \\- the service of tern\n"
           ".SH SYNOPSIS\n.B ternd\n[\\fB\\-\\-version\\fR] [\\fB\\-\\-log\\fR \\fI/PATH\\fR]\n"
           "[\\fB\\-\\-log\\-level\\fR \\fIerror|warning|info|debug\\fR]\n"
           ".SH DESCRIPTION\n"
           "Loads models and answers the requests of\n.BR tern (1),\n"
           "which starts it when it is needed; \\fBtern serve\\fR runs it in the foreground and\n"
           "\\fBtern stop\\fR ends it. SIGTERM and SIGINT end it too.\n"
           ".SH ENVIRONMENT\n"
           ".TP\n.B XDG_RUNTIME_DIR\nholds the folder of its socket and lock\n"
           ".TP\n.B TERN_LOG_LEVEL\nwhat the log tells, where \\-\\-log\\-level does not say it\n"
           ".TP\n.B TERN_RESERVE_MIB\nmemory that models must leave free, in MiB\n"
           ".SH SEE ALSO\n.BR tern (1)\n",
           TERN_VERSION);
}
