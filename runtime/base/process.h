/* The clock and the memory of this process, for whoever measures or waits. */
#ifndef FY_BASE_PROCESS_H
#define FY_BASE_PROCESS_H

#include <stdint.h>

double fy_now_s(void); /* of a clock that only runs forward */

/* Resident memory of this process in bytes from /proc/self/status; 0 when unknown. */
uint64_t fy_rss_anon_bytes(void);
uint64_t fy_rss_peak_bytes(void);
/* A line of /proc/meminfo in bytes ("MemAvailable"); 0 when unknown. */
uint64_t fy_meminfo_bytes(const char *key);

#endif
