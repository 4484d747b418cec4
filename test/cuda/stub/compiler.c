/* A compiler that makes an image of nothing, and refuses sources with the word broken. */
#include <string.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
int nvrtcVersion(int*a,int*b){*a=13;*b=0;return 0;} int nvrtcGetNumSupportedArchs(int*n){*n=3;return 0;} int nvrtcGetSupportedArchs(int*a){a[0]=80;a[1]=90;a[2]=100;return 0;}
int nvrtcCreateProgram(void**p,const char*s,const char*n,int h,void*a,void*b){*p=strdup(s);return h||a||b;}
int nvrtcCompileProgram(void*p,int n,const char**o){if(n<1||strncmp(o[0],"--gpu-architecture=sm_90",24)) return 5;return strstr(p,"broken")?6:0;}
int nvrtcGetProgramLogSize(void*p,size_t*n){*n=4;return 0;} int nvrtcGetProgramLog(void*p,char*l){strcpy(l,"log");return 0;}
int nvrtcGetCUBINSize(void*p,size_t*n){*n=64;return 0;} int nvrtcGetCUBIN(void*p,char*c){memset(c,0,64);strcpy(c,"CUBIN");return 0;} int nvrtcDestroyProgram(void**p){free(*p);return 0;}
