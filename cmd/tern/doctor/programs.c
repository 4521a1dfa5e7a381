/* Tern's programs and the shared libraries they need. */
#include "cmd/tern/client.h"
#include "cmd/tern/doctor/checks.h"
#include "cmd/tern/doctor/run_program.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROGRAMS = 3 };

static const char *const names[PROGRAMS] = {"ternd", "tern-loader", "tern-cpu"};

/* Libraries by the start of their file name, and what brings them on Debian: the packages to build
 * with, whose names stay the same from release to release. */
static const struct {
    const char *soname, *package;
} packages[] = {
    {"libzmq.", "libzmq3-dev"},          {"libmsgpack", "libmsgpack-dev (or libmsgpack-c-dev)"},
    {"libhwloc.", "libhwloc-dev"},       {"libpcre2-8.", "libpcre2-dev"},
    {"libutf8proc.", "libutf8proc-dev"}, {"libjansson.", "libjansson-dev"},
    {"libseccomp.", "libseccomp-dev"},   {"libedit.", "libedit-dev"},
};

/* Workers are the service's neighbours. */
static bool find_programs(char paths[PROGRAMS][PATH_MAX], struct tern_error *error)
{
    char found[PATH_MAX], service[PATH_MAX];
    if (service_program(found, sizeof found, error) != TERN_OK)
        return false;
    if (realpath(found, service) == NULL)
        strcpy(service, found);
    const size_t folder = (size_t)(strrchr(service, '/') - service);
    for (int i = 0; i < PROGRAMS; i++)
        snprintf(paths[i], PATH_MAX, "%.*s/%s", (int)folder, service, names[i]);
    return true;
}

/* One program: there, working, of this version? */
static void check_program(struct finding *finding, const char *name, const char *path)
{
    char said[512], expected[64];
    snprintf(expected, sizeof expected, "%s %s\n", name, TERN_VERSION);
    if (access(path, X_OK) != 0) {
        finding_say(finding, "%s is missing", path);
        finding_unknown(finding, name);
        finding_raise(finding, FINDING_PROBLEM, "install Tern again to get %s", name);
        return;
    }
    finding_text(finding, name, path);
    const bool ran = run_version(path, false, said, sizeof said);
    if (ran && strcmp(said, expected) == 0) {
        finding_say(finding, "%s", path);
        return;
    }
    said[strcspn(said, "\n")] = '\0';
    finding_say(finding, "%s: %s", path, said[0] != '\0' ? said : "fails");
    if (ran)
        finding_raise(finding, FINDING_PROBLEM, "%s is not of version %s: install Tern again", name,
                      TERN_VERSION);
    else
        finding_raise(
            finding, FINDING_PROBLEM,
            "%s does not run: install what packages below names; if that is nothing, build "
            "Tern on this machine",
            name);
}

void check_programs(struct finding *finding)
{
    char paths[PROGRAMS][PATH_MAX];
    struct tern_error error;
    if (!find_programs(paths, &error)) {
        finding_say(finding, "%s", error.message);
        finding_raise(finding, FINDING_PROBLEM, "meson install -C build, or run tern in build/");
        return;
    }
    for (int i = 0; i < PROGRAMS; i++)
        check_program(finding, names[i], paths[i]);
}

static const char *package_of(const char *library)
{
    for (size_t i = 0; i < sizeof packages / sizeof packages[0]; i++)
        if (strncmp(library, packages[i].soname, strlen(packages[i].soname)) == 0)
            return packages[i].package;
    return NULL;
}

/* Lines "NAME => not found" of what the dynamic linker lists. */
static void take_missing(struct finding *finding, const char *program, char *listed,
                         json_t *missing)
{
    char *rest;
    for (char *line = strtok_r(listed, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *arrow = strstr(line, " => not found");
        if (arrow == NULL)
            continue;
        *arrow = '\0';
        const char *library = line + strspn(line, " \t"), *package = package_of(library);
        finding_say(finding, "%s needs %s", program, library);
        json_array_append_new(missing, json_string(library));
        if (package != NULL)
            finding_raise(finding, FINDING_PROBLEM, "on Debian: apt-get install %s", package);
        else
            finding_raise(finding, FINDING_PROBLEM, "install the package that holds %s", library);
    }
}

void check_packages(struct finding *finding)
{
    char paths[PROGRAMS][PATH_MAX], listed[16384];
    struct tern_error error;
    json_t *missing = json_array();
    if (!find_programs(paths, &error)) {
        finding_say(finding, "unknown without the programs");
        finding_unknown(finding, "missing");
        json_decref(missing);
        return;
    }
    for (int i = 0; i < PROGRAMS; i++) {
        if (access(paths[i], X_OK) != 0)
            continue; /* told by check_programs */
        if (run_version(paths[i], true, listed, sizeof listed))
            take_missing(finding, names[i], listed, missing);
        else
            finding_say(finding, "unknown for %s, which cannot be run", names[i]);
    }
    if (finding->text[0] == '\0')
        finding_say(finding, "no library is missing");
    json_object_set_new(finding->figures, "missing", missing);
}
