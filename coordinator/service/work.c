/* The texts of a request on their way through a thread. */
#include "coordinator/service/request.h"

#include <stddef.h>
#include <stdlib.h>

struct tern_work *tern_work_of(struct tern_job *job)
{
    return (struct tern_work *)((char *)job - offsetof(struct tern_work, job));
}

static void on_done(struct tern_job *job)
{
    struct tern_work *work = tern_work_of(job);
    work->busy = false;
    work->done = true;
    tern_service_advance(work->request->service);
}

/* Templates are programs of the file's: their texts may take longer than they are long. */
static size_t expense(const struct tern_request *request)
{
    const bool chat = request->message.kind == TERN_MSG_GENERATE
                          ? !tern_message_bool(&request->message, TERN_F_RAW)
                          : tern_message_bool(&request->message, TERN_F_CHAT);
    const size_t bytes = zmq_msg_size((zmq_msg_t *)&request->bytes);
    return chat ? 4 * bytes : bytes;
}

void tern_work_start(struct tern_request *request, void (*run)(struct tern_job *job))
{
    request->work.request = request;
    request->work.busy = true;
    request->work.job = (struct tern_job){.client = (uintptr_t)request->outbox,
                                          .bytes = expense(request),
                                          .run = run,
                                          .done = on_done};
    tern_jobs_add(request->service->jobs, &request->work.job);
}

void tern_work_drop(struct tern_request *request)
{
    struct tern_work *work = &request->work;
    if (work->busy && tern_jobs_drop(request->service->jobs, &work->job))
        work->busy = false;
}

void tern_work_free(struct tern_work *work)
{
    tern_ids_free(&work->ids);
    for (size_t i = work->sent; i < work->count; i++)
        tern_pack_free(&work->replies[i]);
    free(work->replies);
}
