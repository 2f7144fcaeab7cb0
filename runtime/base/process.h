/* This process: the version of the program, a clock, and the memory it takes. */
#ifndef FY_BASE_PROCESS_H
#define FY_BASE_PROCESS_H

#include <stdint.h>

#define FERRY_VERSION "0.1.0" /* of the program and of the library */

double fy_now_s(void); /* seconds of a clock that never goes back */

/* Resident memory of this process in bytes from /proc/self/status; 0 when unknown. */
uint64_t fy_rss_anon_bytes(void);
/* The most that was seen, what is in use now included; from any thread. */
uint64_t fy_rss_anon_most(_Atomic uint64_t *seen);
uint64_t fy_rss_peak_bytes(void);
/* A line of /proc/meminfo in bytes ("MemAvailable"); 0 when unknown. */
uint64_t fy_meminfo_bytes(const char *key);

#endif
