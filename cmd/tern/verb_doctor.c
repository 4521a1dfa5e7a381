/* tern doctor: what this machine offers, what is missing, and how to get it. Starts no service. */
#include "cmd/tern/doctor/checks.h"
#include "cmd/tern/json_output.h"
#include "cmd/tern/verbs.h"

#include <stdio.h>

static const struct {
    const char *name;
    void (*check)(struct finding *finding);
} checks[] = {
    {"processors", check_processors}, {"tiers", check_tiers},
    {"memory", check_memory},         {"cgroup", check_cgroup},
    {"huge_pages", check_huge_pages}, {"bandwidth", check_bandwidth},
    {"clock", check_clock},           {"kernel", check_kernel},
    {"limits", check_limits},         {"seccomp", check_seccomp},
    {"io_uring", check_io_uring},     {"cache", check_cache},
    {"runtime", check_runtime},       {"state", check_state},
    {"service", check_service},       {"programs", check_programs},
    {"packages", check_packages},
};

enum { CHECKS = sizeof checks / sizeof checks[0], INDENT = 20 };

static void print_finding(const char *name, const struct finding *finding)
{
    printf("%-7s  %-10s %s\n", finding_state_name(finding->state), name, finding->text);
    if (finding->remedy[0] != '\0')
        printf("%*s-> %s\n", INDENT, "", finding->remedy);
    fflush(stdout); /* the next check may take a while */
}

/* Counts findings by state; fills `sections` for --json (NULL: prints them). */
static void run_checks(json_t *sections, int counts[FINDING_PROBLEM + 1])
{
    for (int i = 0; i < CHECKS; i++) {
        struct finding finding;
        finding_begin(&finding);
        checks[i].check(&finding);
        counts[finding.state]++;
        if (sections != NULL)
            json_object_set_new(sections, checks[i].name, finding_json(&finding));
        else
            print_finding(checks[i].name, &finding);
        finding_end(&finding);
    }
}

int verb_doctor(const struct verb *verb, int argc, char **argv)
{
    bool as_json = false;
    const struct option options[] = {
        {"json", OPTION_FLAG, &as_json, NULL, "print JSON", 0, 0, NULL},
        {0},
    };
    int code, counts[FINDING_PROBLEM + 1] = {0};
    if (!options_begin(verb, options, &argc, argv, 0, 0, &code))
        return code;
    json_t *sections = as_json ? json_object() : NULL;
    run_checks(sections, counts);
    const int notes = counts[FINDING_NOTE], problems = counts[FINDING_PROBLEM];
    if (as_json) {
        json_t *report = json_pack("{s:s, s:i, s:i, s:o}", "version", TERN_VERSION, "problems",
                                   problems, "notes", notes, "checks", sections);
        print_json(report);
        json_decref(report);
    } else {
        printf("\n%d problem%s, %d note%s\n", problems, problems == 1 ? "" : "s", notes,
               notes == 1 ? "" : "s");
    }
    return problems > 0 ? TERN_FAILED : 0;
}
