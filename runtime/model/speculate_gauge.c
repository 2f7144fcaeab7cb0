/* What speculation costs and brings, as measured: the longest proposals that make a text faster.
 *
 * With k guesses, each of them right with probability a, a step gives 1 + a + ... + a^k tokens on
 * average. It takes the time of a step of k + 1 tokens and of k guesses. That is compared with the
 * step of one token.
 *
 * Before a length was measured nobody knows that, and no text must become slower than 0.95 of its
 * rate because it was measured: so what guesses may lose at worst, every one of them wrong and
 * every token as expensive as a step, has to be there before, from guesses that were right or saved
 * up from the tokens so far. */
#include "model/speculate.h"

enum { FIRST_WAIT = 8, LAST_WAIT = 128, TRIAL = 3 };

#define FADES  0.97 /* what a guess still counts after another step */
#define FASTER 0.5  /* how far a shorter time moves the one that is kept, and a longer one: */
#define SLOWER 0.05 /* other work on the machine makes steps longer, nothing makes them shorter */
#define GAIN   1.02 /* less than this is not worth it: times are measured with an error */

/* In steps of one token: */
#define SPARE_FIRST 1.0  /* at the beginning */
#define SPARE_EACH  0.03 /* for every token of a text */
#define SPARE_MOST  16.0 /* of what was won: the text may change */

static void smooth(double *kept, double now)
{
    *kept = *kept > 0 ? *kept + (now < *kept ? FASTER : SLOWER) * (now - *kept) : now;
}

void fy_step_costs_add(fy_step_costs *c, uint32_t n_tokens, double seconds)
{
    if (n_tokens > FY_GAUGE_STEP_MAX || n_tokens == 0 || !(seconds > 0))
        return;
    smooth(&c->step_s[n_tokens], seconds);
}

/* Measured, or between what was measured; beyond it, and before anything was measured there, no
 * more than the nearest: so every length is tried once. */
double fy_step_costs_of(const fy_step_costs *c, uint32_t n)
{
    uint32_t below = n < FY_GAUGE_STEP_MAX ? n : FY_GAUGE_STEP_MAX, above = n;
    while (below > 0 && c->step_s[below] == 0)
        below--;
    while (above <= FY_GAUGE_STEP_MAX && c->step_s[above] == 0)
        above++;
    if (below == 0)
        return above <= FY_GAUGE_STEP_MAX ? c->step_s[above] : 0;
    if (above > FY_GAUGE_STEP_MAX || above == below)
        return c->step_s[below];
    const double share = (double)(n - below) / (above - below);
    return c->step_s[below] + share * (c->step_s[above] - c->step_s[below]);
}

void fy_step_costs_begin(fy_step_costs *c, bool flat)
{
    *c = (fy_step_costs){.spare = SPARE_FIRST, .flat = flat};
}

void fy_step_costs_count(fy_step_costs *c, uint32_t n_tokens, double propose_s, uint32_t n_made)
{
    const double one_s = c->step_s[1];
    c->spare += SPARE_EACH * n_made;
    if (n_tokens > 1 && one_s > 0)
        c->spare += n_made - (fy_step_costs_of(c, n_tokens) + propose_s) / one_s;
    c->spare = c->spare < SPARE_MOST ? c->spare : SPARE_MOST;
}

/* May a step with k guesses be tried? Beyond what was measured, each token may cost a step. */
static bool can_afford(const fy_gauge *g, const fy_step_costs *c, uint32_t k)
{
    uint32_t n = k + 1 < FY_GAUGE_STEP_MAX ? k + 1 : FY_GAUGE_STEP_MAX, below = n, above = n;
    while (below > 1 && c->step_s[below] == 0)
        below--;
    while (above < FY_GAUGE_STEP_MAX && c->step_s[above] == 0)
        above++;
    double most_s = fy_step_costs_of(c, n) + k * g->guess_s;
    if (!c->flat && c->step_s[above] == 0)
        most_s += (n - below) * c->step_s[1];
    return most_s <= (1 + c->spare) * c->step_s[1];
}

void fy_gauge_begin(fy_gauge *g)
{
    *g = (fy_gauge){.tried = 2, .right = 1.4, .steps = 1, .wait = FIRST_WAIT};
}

void fy_gauge_add(fy_gauge *g, uint32_t n_proposed, uint32_t n_right, double propose_s)
{
    if (n_proposed == 0)
        return;
    g->tried = FADES * g->tried + n_right + (n_right < n_proposed ? 1 : 0);
    g->right = FADES * g->right + n_right;
    g->steps = FADES * g->steps + 1;
    if (g->idle >= g->wait && ++g->trials == TRIAL) {
        g->idle = g->trials = 0;
        g->wait = g->wait < LAST_WAIT ? 2 * g->wait : LAST_WAIT;
    }
    if (propose_s > 0)
        smooth(&g->guess_s, propose_s / n_proposed);
}

/* k, or now and then a few trials where nothing pays: the text may have changed. */
static uint32_t decide(fy_gauge *g, uint32_t k, uint32_t trial)
{
    if (k > 0) {
        g->idle = g->trials = 0;
        g->wait = FIRST_WAIT;
        return k;
    }
    return ++g->idle >= g->wait ? trial : 0;
}

uint32_t fy_gauge_choose(fy_gauge *g, const fy_step_costs *c, uint32_t most)
{
    const double a = g->tried > 0 ? g->right / g->tried : 0;
    const double one_s = c->step_s[1];
    double tokens = 1, of_k = 1, best = GAIN;
    uint32_t k = 0;
    if (one_s == 0 || most == 0)
        return 0; /* the first step shows what the others are compared with */
    for (uint32_t i = 1; i <= most && i < FY_GAUGE_STEP_MAX && can_afford(g, c, i); i++) {
        of_k *= a;
        tokens += of_k;
        const double gain = tokens * one_s / (fy_step_costs_of(c, i + 1) + i * g->guess_s);
        if (gain > best) {
            best = gain;
            k = i;
        }
    }
    return decide(g, k, can_afford(g, c, 1) ? 1 : 0);
}

bool fy_gauge_pays(fy_gauge *g, const fy_step_costs *c, uint32_t n)
{
    const double one_s = c->step_s[1], took_s = fy_step_costs_of(c, n + 1) + n * g->guess_s;
    if (one_s == 0 || n == 0 || !can_afford(g, c, n))
        return false;
    const bool pays = (1 + g->right / g->steps) * one_s > GAIN * took_s;
    return decide(g, pays ? n : 0, n) > 0;
}
