/* The temperature sensors of Linux: /sys/class/thermal/thermal_zone*, in the order of their names.
 */
#ifndef FY_BASE_THERMAL_H
#define FY_BASE_THERMAL_H

/* type: the zone's name, as its driver gives it; c: degrees. */
typedef void fy_thermal_zone(void *user, const char *type, double c);

/* Calls `each` for every zone below root ("" for this machine's) that reports a temperature; one
 * that is off says -273 or 255 and is left out. Some sensors take milliseconds to answer. */
void fy_thermal_zones(const char *root, fy_thermal_zone *each, void *user);

#endif
