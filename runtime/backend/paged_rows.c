/* Memory of rows that are not kept there. */
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/backend_cpu.h"

void fy_paged_rows_drop(const fy_matrix *w)
{
#ifdef MADV_PAGEOUT
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), data = (uintptr_t)w->data;
    const uintptr_t end = (data + (size_t)w->n_rows * w->row_bytes) & ~(page - 1);
    const uintptr_t begin =
        (data + (size_t)(w->n_rows - w->n_paged) * w->row_bytes + page - 1) & ~(page - 1);
    if (w->n_paged > 0 && begin < end)
        madvise((void *)begin, end - begin, MADV_PAGEOUT); /* advice: older systems refuse it */
#else
    (void)w;
#endif
}
