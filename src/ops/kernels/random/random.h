/* ops/kernels/random/random.h -- draws numbers as PyTorch's CPU generator does, bit by bit.
 *
 * A `sampler` draws elements one after the other, in the order of memory; random_fill runs it over
 * a tensor of any strides.  How many words of the generator a distribution uses is part of
 * PyTorch's promise for torch.manual_seed, so it is the same for every dtype. Threads: random_fill
 * and random_fill_normal take turns with others (tensor/generator.h). */
#ifndef RUSH_OPS_RANDOM_H
#define RUSH_OPS_RANDOM_H

#include "ops/call/call.h"
#include "tensor/generator.h"

typedef struct sampler sampler;
struct sampler {
  /* Draw one block: n elements of type `kind` (RUSH_FLOAT64 or RUSH_INT64) into out. */
  void (*draw)(sampler *s, int64_t n, void *out);
  int kind;
  int dtype;       /* of the tensor that is filled */
  generator *g;
  turn *turn;      /* random_fill's */
  double a, b;     /* the distribution's parameters */
  uint64_t range;  /* integers: base + word % range */
  int64_t base;
};

/* Draw a float, as dtype draws it. */
double random_uniform(generator *g, int dtype); /* [0, 1) */
double random_normal(generator *g);             /* the pairwise double form, with its cached half */
double random_poisson(generator *g, double lambda);
double random_binomial(generator *g, double count, double p);
double random_gamma(generator *g, double alpha, int dtype);

void draw_uniform(sampler *s, int64_t n, void *out);     /* [a, b) */
void draw_normal(sampler *s, int64_t n, void *out);      /* mean a, deviation b */
void draw_log_normal(sampler *s, int64_t n, void *out);
void draw_exponential(sampler *s, int64_t n, void *out); /* rate a */
void draw_geometric(sampler *s, int64_t n, void *out);   /* probability a */
void draw_cauchy(sampler *s, int64_t n, void *out);      /* median a, scale b */
void draw_from_to(sampler *s, int64_t n, void *out);     /* base + [0, range) */
void draw_any_int(sampler *s, int64_t n, void *out);     /* random_() without bounds */
void draw_any_word(sampler *s, int64_t n, void *out);    /* all 64 bits */

/* Get the generator of an argument (None: the context's). */
rush_status random_generator(rush_call *c, rush_value v, generator **out) RUSH_CHECKED;
/* Draw every element of t. */
rush_status random_fill(call_ctx *cx, rush_tensor *t, sampler *s) RUSH_CHECKED;
/* Draw normals; 16 and more contiguous ones have a formula of their own, as in PyTorch. */
rush_status random_fill_normal(call_ctx *cx, rush_tensor *t, generator *g, double mean,
                               double std) RUSH_CHECKED;

#endif
