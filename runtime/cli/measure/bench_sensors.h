/* What tells why a machine slows down: clock and temperature. Read from /proc and /sys, of which
 * phones and virtual machines show a part or nothing. */
#ifndef FY_CLI_BENCH_SENSORS_H
#define FY_CLI_BENCH_SENSORS_H

/* `root` stands before the paths: "" for this machine. 0: not readable. */
double fy_bench_clock_mhz(const char *root);     /* of the fastest core, now */
double fy_bench_temperature_c(const char *root); /* of the hottest zone of the processor */

#endif
