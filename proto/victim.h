/* When memory runs out the kernel ends a process. A worker or loader can be replaced; the
 * coordinator, which holds all requests, cannot. */
#ifndef TERN_PROTO_VICTIM_H
#define TERN_PROTO_VICTIM_H

/* Makes this process the first that the kernel's out-of-memory killer takes. Where that cannot be
 * said (no /proc) nothing changes. */
void tern_prefer_as_victim(void);

#endif
