#include "base/progress.h"

#include <stddef.h>

volatile sig_atomic_t fy_interrupted;

void fy_progress_add(fy_progress *p, uint64_t bytes)
{
    if (p == NULL)
        return;
    atomic_fetch_add_explicit(&p->done_bytes, bytes, memory_order_relaxed);
    if (p->show != NULL)
        p->show(p);
}
