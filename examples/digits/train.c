/* train.c -- train the digit network from random weights: a complete program that trains without
 * Python.
 *
 *   train_digits MODEL.pt OUT.pt [EPOCHS]
 *
 * MODEL.pt is digits.pt, whose weights are thrown away.  The images are drawn here: strokes of a
 * pen along each digit, with random slant, size, place, width and noise, on 8 by 8 pixels; 2,000
 * to learn from and 500 to test with.  Prints the loss and the share of right answers after each
 * epoch, stops when 98 % are right, and writes OUT.pt and the optimizer's state OUT.pt.state.pt,
 * which PyTorch opens and trains further.  The exit code is 1 if less than 97 % are right. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rushlight/optim.h>

enum { SIDE = 8, PIXELS = SIDE * SIDE, N_TRAIN = 2000, N_TEST = 500, BATCH = 50, MOST_POINTS = 14 };

/* -- Random numbers ---------------------------------------------------------------------------- */

/* Return the next number in [0, 1): splitmix64. */
static double draw(uint64_t *state)
{
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static double between(uint64_t *state, double low, double high)
{
  return low + (high - low) * draw(state);
}

/* -- Images ------------------------------------------------------------------------------------ */

/* The way of the pen in a square of 100 by 100, y downwards; ends where x is 0. */
static const unsigned char strokes[10][MOST_POINTS][2] = {
  {{50, 10}, {30, 22}, {25, 50}, {30, 78}, {50, 90}, {70, 78}, {75, 50}, {70, 22}, {50, 10}},
  {{35, 30}, {54, 10}, {54, 90}},
  {{27, 30}, {40, 12}, {60, 12}, {72, 30}, {62, 50}, {27, 88}, {75, 88}},
  {{28, 18}, {50, 10}, {70, 24}, {64, 42}, {45, 48}, {66, 55}, {72, 74}, {52, 90}, {27, 82}},
  {{66, 90}, {66, 10}, {24, 62}, {80, 62}},
  {{74, 11}, {32, 11}, {29, 46}, {55, 42}, {73, 58}, {70, 80}, {48, 90}, {26, 82}},
  {{68, 11}, {42, 30}, {28, 60}, {35, 84}, {55, 90}, {72, 74}, {64, 55}, {45, 52}, {29, 66}},
  {{25, 13}, {76, 13}, {44, 90}},
  {{50, 48}, {30, 32}, {40, 12}, {60, 12}, {70, 32}, {50, 48}, {28, 70}, {40, 90}, {60, 90},
   {72, 70}, {50, 48}},
  {{71, 34}, {55, 48}, {36, 45}, {28, 26}, {45, 10}, {65, 16}, {72, 40}, {58, 70}, {32, 89}},
};

/* Return the distance of a point from a line between two points. */
static double distance(double x, double y, const double *a, const double *b)
{
  const double dx = b[0] - a[0], dy = b[1] - a[1];
  double t = ((x - a[0]) * dx + (y - a[1]) * dy) / (dx * dx + dy * dy + 1e-9);
  t = t < 0 ? 0 : t > 1 ? 1 : t;
  return hypot(x - a[0] - t * dx, y - a[1] - t * dy);
}

static void draw_digit(int digit, uint64_t *state, float *pixels)
{
  const double turn = between(state, -0.3, 0.3), slant = between(state, -0.3, 0.3),
               size = between(state, 0.7, 1.1), right = between(state, -0.12, 0.12),
               down = between(state, -0.1, 0.1), width = between(state, 0.03, 0.09);
  double points[MOST_POINTS][2];
  int n = 0;
  for (; n < MOST_POINTS && strokes[digit][n][0]; n++) {
    const double x = (strokes[digit][n][0] / 100.0 - 0.5 + between(state, -0.05, 0.05)) * size,
                 y = (strokes[digit][n][1] / 100.0 - 0.5 + between(state, -0.05, 0.05)) * size;
    points[n][0] = 0.5 + right + cos(turn) * x - sin(turn) * y - slant * y;
    points[n][1] = 0.5 + down + sin(turn) * x + cos(turn) * y;
  }
  for (int i = 0; i < PIXELS; i++) {
    const double x = (i % SIDE + 0.5) / SIDE, y = (i / SIDE + 0.5) / SIDE;
    double least = 1;
    for (int k = 0; k + 1 < n; k++)
      least = fmin(least, distance(x, y, points[k], points[k + 1]));
    const double ink = 1 - (least - width) * SIDE * 1.2 + between(state, -0.25, 0.25);
    pixels[i] = (float)(ink < 0 ? 0 : ink > 1 ? 1 : ink);
  }
}

/* Images and their digits. */
typedef struct dataset {
  float (*images)[PIXELS];
  int64_t *labels;
  int n;
} dataset;

static dataset draw_digits(int n, uint64_t seed)
{
  dataset d = {malloc(sizeof(float[PIXELS]) * (size_t)n), malloc(sizeof(int64_t) * (size_t)n), n};
  for (int i = 0; i < n && d.images && d.labels; i++) {
    d.labels[i] = i % 10;
    draw_digit(i % 10, &seed, d.images[i]);
  }
  return d;
}

static void shuffle(dataset *d, uint64_t *state)
{
  for (int i = d->n - 1; i > 0; i--) {
    const int k = (int)(draw(state) * (i + 1));
    float image[PIXELS];
    const int64_t label = d->labels[i];
    memcpy(image, d->images[i], sizeof image);
    memcpy(d->images[i], d->images[k], sizeof image);
    memcpy(d->images[k], image, sizeof image);
    d->labels[i] = d->labels[k];
    d->labels[k] = label;
  }
}

/* -- The network ------------------------------------------------------------------------------- */

typedef struct trainer {
  rush_module *model;
  rush_optimizer *optimizer;
  rush_error err;
} trainer;

/* Set `training` of a module and its submodules: dropout and batch statistics. */
static rush_status set_training(trainer *t, rush_value object, bool on)
{
  rush_status st =
    rush_object_set_attr(NULL, object, "training", rush_value_bool(on), &t->err);
  for (size_t i = 0; i < rush_object_n_attrs(object) && st == RUSH_OK; i++)
    if (rush_object_slot_kind(object, i) & RUSH_SLOT_MODULE) {
      rush_value sub = rush_object_attr(object, rush_object_attr_name(object, i));
      st = set_training(t, sub, on);
      rush_value_release(sub);
    }
  return st;
}

/* Fill a parameter or buffer as PyTorch's layers do: weights and their biases uniform by the
 * number of inputs, which *bound remembers; normalisations begin with 1 and 0. */
static void fill(const char *name, rush_tensor *t, double *bound, uint64_t *state)
{
  const char *kind = strrchr(name, '.') ? strrchr(name, '.') + 1 : name;
  const int64_t n = rush_tensor_n_elems(t), *sizes = rush_tensor_sizes(t);
  if (rush_tensor_dtype(t) != RUSH_FLOAT32)
    return; /* a counter */
  float *p = rush_tensor_data_mut(t);
  if (strcmp(kind, "weight") == 0)
    *bound = rush_tensor_n_dims(t) > 1 ? 1 / sqrt((double)(n / sizes[0])) : 0;
  const bool is_one = strcmp(kind, "running_var") == 0 ||
                      (strcmp(kind, "weight") == 0 && *bound == 0);
  const double width = strncmp(kind, "running", 7) == 0 ? 0 : *bound;
  for (int64_t i = 0; i < n; i++)
    p[i] = is_one ? 1 : (float)between(state, -width, width);
}

static rush_status randomize(trainer *t, uint64_t seed)
{
  double bound = 0;
  rush_status st = RUSH_OK;
  for (size_t i = 0; i < rush_module_n_state(t->model) && st == RUSH_OK; i++) {
    char *name;
    rush_value v;
    st = rush_module_state_at(t->model, i, &name, NULL, &v, &t->err);
    if (st != RUSH_OK)
      break;
    fill(name, v.as.tensor, &bound, &seed);
    rush_free_text(NULL, name);
    rush_value_release(v);
  }
  return st;
}

/* -- Training ---------------------------------------------------------------------------------- */

/* Call the network on images [first, first + n); *logits is new. */
static rush_status forward(trainer *t, const dataset *d, int first, int n, bool records,
                           rush_value *logits)
{
  rush_call_options options = RUSH_CALL_OPTIONS_INIT;
  const int64_t sizes[4] = {n, 1, SIDE, SIDE};
  rush_value x;
  rush_status st = rush_tensor_wrap(NULL, RUSH_FLOAT32, 4, sizes, NULL, d->images[first], NULL,
                                    NULL, &x, &t->err);
  if (st != RUSH_OK)
    return st;
  options.record_gradients = records;
  st = rush_module_call_named(t->model, "forward", &x, 1, NULL, 0, &options, logits, &t->err);
  rush_value_release(x);
  return st;
}

/* One step on a batch; adds its loss to *total. */
static rush_status step(trainer *t, const dataset *d, int first, double *total)
{
  rush_call_options options = RUSH_CALL_OPTIONS_INIT;
  const int64_t n = BATCH;
  rush_value logits, labels, loss;
  size_t n_results;
  rush_status st = forward(t, d, first, BATCH, true, &logits);
  if (st != RUSH_OK)
    return st;
  options.record_gradients = true;
  st = rush_tensor_wrap(NULL, RUSH_INT64, 1, &n, NULL, d->labels + first, NULL, NULL, &labels,
                        &t->err);
  if (st == RUSH_OK) {
    const rush_value pair[2] = {logits, labels};
    st = rush_op_call_with(NULL, "aten::cross_entropy_loss", pair, 2, NULL, 0, &options, &loss, 1,
                           &n_results, &t->err);
    rush_value_release(labels);
  }
  rush_value_release(logits);
  if (st != RUSH_OK)
    return st;
  *total += (double)*(const float *)rush_tensor_data(loss.as.tensor);
  if ((st = rush_optimizer_zero_grad(t->optimizer, true, &t->err)) == RUSH_OK &&
      (st = rush_backward(NULL, &loss, NULL, 1, NULL, &t->err)) == RUSH_OK)
    st = rush_optimizer_step(t->optimizer, &t->err);
  rush_value_release(loss);
  return st;
}

/* Compute the share of right answers. */
static rush_status test(trainer *t, const dataset *d, double *share)
{
  rush_value logits;
  int n_right = 0;
  rush_status st = set_training(t, rush_module_value(t->model), false);
  if (st == RUSH_OK)
    st = forward(t, d, 0, d->n, false, &logits);
  if (st != RUSH_OK)
    return st;
  const float *p = rush_tensor_data(logits.as.tensor);
  for (int i = 0; i < d->n; i++, p += 10) {
    int best = 0;
    for (int k = 1; k < 10; k++)
      best = p[k] > p[best] ? k : best;
    n_right += best == d->labels[i];
  }
  rush_value_release(logits);
  *share = (double)n_right / d->n;
  return RUSH_OK;
}

static rush_status train(trainer *t, dataset *d, const dataset *held, int n_epochs, double *share)
{
  uint64_t state = 3;
  rush_status st = RUSH_OK;
  for (int epoch = 1; epoch <= n_epochs && *share < 0.98; epoch++) {
    double total = 0;
    shuffle(d, &state);
    st = set_training(t, rush_module_value(t->model), true);
    for (int i = 0; i + BATCH <= d->n && st == RUSH_OK; i += BATCH)
      st = step(t, d, i, &total);
    if (st == RUSH_OK)
      st = test(t, held, share);
    if (st != RUSH_OK)
      return st;
    printf("epoch %d: loss %.4f, %.1f %% of %d new digits right\n", epoch,
           total / (d->n / BATCH), 100 * *share, held->n);
    fflush(stdout);
  }
  return st;
}

static rush_status save(trainer *t, const char *path)
{
  char state_path[4096];
  rush_value state;
  rush_status st = rush_module_save(t->model, path, NULL, &t->err);
  if (st != RUSH_OK)
    return st;
  snprintf(state_path, sizeof state_path, "%s.state.pt", path);
  if ((st = rush_optimizer_state(t->optimizer, &state, &t->err)) != RUSH_OK)
    return st;
  st = rush_value_save(NULL, state_path, state, &t->err);
  rush_value_release(state);
  return st;
}

static rush_status run(trainer *t, const char *model, const char *out, int n_epochs, double *share)
{
  rush_optimizer_options options = RUSH_OPTIMIZER_OPTIONS_INIT;
  dataset d = draw_digits(N_TRAIN, 1), held = draw_digits(N_TEST, 2);
  rush_status st = d.images && d.labels && held.images && held.labels ? RUSH_OK : RUSH_ENOMEM;
  if (st == RUSH_OK)
    st = rush_module_load(NULL, model, NULL, &t->model, &t->err);
  if (st == RUSH_OK)
    st = randomize(t, 4);
  if (st == RUSH_OK)
    st = rush_optimizer_defaults(RUSH_OPTIMIZER_ADAM, &options, &t->err);
  options.lr = 2e-3;
  if (st == RUSH_OK)
    st = rush_optimizer_of_module(t->model, RUSH_OPTIMIZER_ADAM, &options, &t->optimizer, &t->err);
  if (st == RUSH_OK)
    st = test(t, &held, share);
  if (st == RUSH_OK) {
    printf("random weights: %.1f %% right\n", 100 * *share);
    st = train(t, &d, &held, n_epochs, share);
  }
  if (st == RUSH_OK)
    st = save(t, out);
  free(d.images);
  free(d.labels);
  free(held.images);
  free(held.labels);
  return st;
}

int main(int argc, char **argv)
{
  trainer t = {NULL, NULL, RUSH_ERROR_INIT};
  double share = 0;
  if (argc < 3) {
    fprintf(stderr, "usage: train_digits MODEL.pt OUT.pt [EPOCHS]\n");
    return 2;
  }
  const rush_status st = run(&t, argv[1], argv[2], argc > 3 ? atoi(argv[3]) : 20, &share);
  if (st != RUSH_OK)
    fprintf(stderr, "train_digits: %s\n", t.err.message ? t.err.message : rush_status_name(st));
  else
    printf("wrote %s\n", argv[2]);
  rush_optimizer_release(t.optimizer);
  rush_module_release(t.model);
  rush_error_clear(&t.err);
  return st != RUSH_OK ? 3 : share < 0.97;
}
