/* What `tern ps` and `tern load` show, as JSON. */
#include "coordinator/model/load.h"
#include "coordinator/model/options.h"
#include "coordinator/schedule/prefix.h"
#include "coordinator/service/request.h"
#include "coordinator/service/values.h"
#include "proto/tier.h"

#include <unistd.h>

enum { MIB = 1 << 20 };

static json_t *process_value(const struct tern_process_info *info)
{
    json_t *value = json_object(), *calls = json_object();
    put_text(value, "role", info->role);
    put_number(value, "pid", (uint64_t)info->pid);
    put_text(value, "state", info->state);
    put_number(value, "restarts", info->restarts);
    for (int i = 0; i < TERN_TIERS; i++)
        put_number(calls, tern_tier_name((enum tern_tier)i), info->calls[i]);
    put_value(value, "calls", calls);
    return value;
}

static json_t *processes_value(const struct tern_service *service)
{
    struct tern_process_info info[32];
    json_t *list = json_array();
    size_t count = tern_supervisor_processes(service->supervisor, info, 32);
    count = count < 32 ? count : 32;
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, process_value(&info[i]));
    return list;
}

/* ---- figures ---- */

static json_t *rates_value(const struct tern_rates *rates)
{
    return json_pack("{s:f, s:f}", "prompt", rates->prompt, "decode", rates->decode);
}

static json_t *tokens_value(const struct tern_figures *figures)
{
    const struct tern_rates recent = tern_figures_recent(figures, tern_now_ns());
    const struct tern_rates all = tern_figures_all(figures);
    json_t *value = json_object();
    put_number(value, "prompt", figures->all.prompt);
    put_number(value, "decode", figures->all.decode);
    put_number(value, "steps", figures->steps);
    put_value(value, "per_s", rates_value(&recent));
    put_value(value, "per_s_computing", rates_value(&all));
    return value;
}

/* ---- who runs, who waits ---- */

struct activity {
    uint64_t running; /* hold a page table */
    uint64_t queued;  /* wait for one, or for their model */
    uint64_t paused;  /* their clients do not read what was sent */
};

/* `session` NULL: none yet. */
static void count(struct activity *activity, const struct tern_session *session)
{
    if (session != NULL && session->credit == 0)
        activity->paused++;
    else if (session != NULL && session->sequence >= 0)
        activity->running++;
    else
        activity->queued++;
}

static void put_activity(json_t *value, const struct activity *activity)
{
    put_number(value, "running", activity->running);
    put_number(value, "queued", activity->queued);
    put_number(value, "paused", activity->paused);
}

static void put_sessions(json_t *value, const struct tern_lane *lane)
{
    struct activity activity = {0};
    for (const struct tern_session *s = lane->sessions; s != NULL; s = s->next)
        count(&activity, s);
    put_activity(value, &activity);
}

/* Those of sessions; those that only kept prefixes hold, which give way to sessions; the rest. */
static void put_pages(json_t *value, const struct tern_lane *lane)
{
    const uint32_t count = tern_pages_count(lane->pages), kept = tern_prefix_pages(lane);
    const uint32_t available = tern_pages_available(lane->pages);
    put_number(value, "pages", count);
    put_number(value, "pages_used", count - available - kept);
    put_number(value, "pages_kept", kept);
    put_number(value, "pages_free", available);
    put_number(value, "page_positions", TERN_PAGE_POSITIONS);
}

static json_t *model_value(const struct tern_model *model)
{
    json_t *value = json_object();
    put_text(value, "model", model->file->path);
    put_text(value, "state", tern_model_state_name(model->state));
    put_flag(value, "pinned", model->pinned);
    put_number(value, "requests", model->users);
    put_number(value, "context", model->size.context);
    put_number(value, "threads", model->options.threads);
    put_text(value, "tier", tern_options_tier(&model->options));
    put_number(value, "batch", model->options.batch);
    put_text(value, "precision", tern_options_precision(&model->options));
    put_text(value, "kv", tern_options_kv(&model->options));
    put_flag(value, "unfused", model->options.unfused);
    put_number(value, "mib", (tern_model_planned(model) + MIB - 1) / MIB);
    put_number(value, "planned_bytes", tern_model_planned(model));
    put_number(value, "resident_bytes", tern_model_committed(model));
    if (model->lane.pages != NULL)
        put_pages(value, &model->lane);
    put_sessions(value, &model->lane);
    put_value(value, "tokens", tokens_value(&model->lane.figures));
    return value;
}

char *tern_describe_model(const struct tern_model *model)
{
    return print_value(model_value(model));
}

/* All requests but the one that asks; of those on models what they are doing. */
static void put_requests(json_t *root, const struct tern_service *service)
{
    struct activity activity = {0};
    uint64_t requests = 0;
    for (const struct tern_request *r = service->requests; r != NULL; r = r->next) {
        if (r->finished || r->gone || r->message.kind == TERN_MSG_PS)
            continue;
        requests++;
        if (r->model != NULL)
            count(&activity, r->session);
    }
    put_number(root, "requests", requests);
    put_activity(root, &activity);
}

static void put_models(json_t *root, const struct tern_service *service)
{
    json_t *models = json_array(), *memory = json_object();
    uint64_t planned = 0, resident = 0;
    for (const struct tern_model *model = tern_models_first(service->models); model != NULL;
         model = model->next) {
        json_array_append_new(models, model_value(model));
        planned += tern_model_planned(model);
        resident += tern_model_committed(model);
    }
    put_value(root, "models", models);
    put_number(memory, "planned_bytes", planned);
    put_number(memory, "resident_bytes", resident);
    put_value(root, "memory", memory);
}

char *tern_describe_service(const struct tern_service *service)
{
    json_t *root = json_object(), *coordinator = json_object();
    put_number(coordinator, "pid", (uint64_t)getpid());
    put_text(coordinator, "version", TERN_VERSION);
    put_number(coordinator, "uptime_s", (tern_now_ns() - service->began_ns) / 1000000000);
    put_value(root, "coordinator", coordinator);
    put_value(root, "workers", processes_value(service));
    put_models(root, service);
    put_requests(root, service);
    put_value(root, "tokens", tokens_value(tern_scheduler_figures(service->scheduler)));
    return print_value(root);
}
