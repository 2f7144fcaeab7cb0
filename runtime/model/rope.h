/* Rotary positions: how fast each pair of a head turns, and the angles of a position. Rates are
 * kept and angles computed in double; what the backend gets is rounded once. */
#ifndef FY_MODEL_ROPE_H
#define FY_MODEL_ROPE_H

#include <stdint.h>

#include "arch/arch.h"

typedef struct {
    uint32_t n_pairs;
    double *rate;     /* view of the caller's memory: [n_pairs], radians per position */
    double magnitude; /* multiplies cos and sin */
} fy_rope;

/* rate: n_rot / 2 doubles that live as long as *r. freqs: the rope_freqs tensor, or the factors of
 * longrope (divides the rates), or NULL. */
void fy_rope_init(fy_rope *r, const fy_hparams *hp, const float *freqs, double *rate);
/* For the layers with the window, where they have a base of their own (rope_theta_swa): no
 * scaling. */
void fy_rope_init_swa(fy_rope *r, const fy_hparams *hp, double *rate);

/* angles[2i] = cos, angles[2i + 1] = sin of pair i at position pos. */
void fy_rope_angles(const fy_rope *r, uint32_t pos, float *angles);

#endif
