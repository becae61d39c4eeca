/* Names and texts of results: "Error Handling". */
#include "../include/fake.h"

struct result {
    int number;
    const char *name, *text;
};
#define ROW(number, name, text) {number, #name, text},
static const struct result results[] = {FK_RESULTS(ROW)};

static const struct result *find(CUresult error)
{
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (results[i].number == error)
            return &results[i];
    return NULL;
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
    FK_ENTER_ANYTIME(cuGetErrorName);
    const struct result *const found = find(error);
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *name = found ? found->name : NULL;
    return found ? 0 : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    FK_ENTER_ANYTIME(cuGetErrorString);
    const struct result *const found = find(error);
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    *text = found ? found->text : NULL;
    return found ? 0 : CUDA_ERROR_INVALID_VALUE;
}
