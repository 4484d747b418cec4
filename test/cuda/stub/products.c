/* cuBLASLt in plain loops on memory of the host, put on the stub driver's stream. It refuses products of 11 columns or rows of results, and
   leading dimensions below the rows. Types and attributes by their numbers in cublasLt.h. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
typedef uint64_t u64; typedef uint32_t u32; typedef int64_t i64;
int stubPut(void(*work)(const void*),const void*data,size_t bytes,void*stream);
static int objects, products;
/* Descriptions alive, products computed. */
int stubProducts(int*out){out[0]=objects;out[1]=products;return 0;}
u64 cublasLtGetVersion(void){return 130100;}
const char*cublasLtGetStatusName(int s){return s==7?"CUBLAS_STATUS_INVALID_VALUE":s==15?"CUBLAS_STATUS_NOT_SUPPORTED":"CUBLAS_STATUS_OTHER";}
int cublasLtCreate(void**h){*h=(void*)0x1717;return 0;} int cublasLtDestroy(void*h){return h==(void*)0x1717?0:7;}
typedef struct {u32 compute,scale;int transA,transB;} Desc;
typedef struct {u32 type;u64 rows,cols;i64 ld;int batches;i64 stride;} Layout;
typedef struct {u64 workspace;u32 scheme,align[4];} Pref;
int cublasLtMatmulDescCreate(Desc**d,u32 c,u32 s){*d=calloc(1,sizeof(Desc));(*d)->compute=c;(*d)->scale=s;objects++;return (c==68&&s==0)||(c==70&&s==1)?0:7;}
int cublasLtMatmulDescSetAttribute(Desc*d,u32 a,const void*v,size_t n){if(n!=4||(a!=3&&a!=4)) return 7; *(a==3?&d->transA:&d->transB)=*(int*)v;return 0;}
int cublasLtMatmulDescDestroy(Desc*d){objects--;free(d);return 0;}
int cublasLtMatrixLayoutCreate(Layout**l,u32 t,u64 r,u64 c,i64 ld){*l=calloc(1,sizeof(Layout));**l=(Layout){t,r,c,ld,1,0};objects++;return ld<(i64)r?7:0;}
int cublasLtMatrixLayoutSetAttribute(Layout*l,u32 a,const void*v,size_t n){if(a==5&&n==4) l->batches=*(int*)v; else if(a==6&&n==8) l->stride=*(i64*)v; else return 7; return 0;}
int cublasLtMatrixLayoutDestroy(Layout*l){objects--;free(l);return 0;}
int cublasLtMatmulPreferenceCreate(Pref**p){*p=calloc(1,sizeof(Pref));objects++;return 0;}
int cublasLtMatmulPreferenceSetAttribute(Pref*p,u32 a,const void*v,size_t n){if(a==1&&n==8) p->workspace=*(u64*)v; else if(a==3&&n==4) p->scheme=*(u32*)v; else if(a>=5&&a<=8&&n==4) p->align[a-5]=*(u32*)v; else return 7; return 0;}
int cublasLtMatmulPreferenceDestroy(Pref*p){objects--;free(p);return 0;}
typedef struct {u64 algo[8];size_t workspace;int state;float waves;int reserved[4];} Result;
static int fits(const Desc*d,const Layout*a,const Layout*b,const Layout*c){
  u64 m=d->transA?a->cols:a->rows,ka=d->transA?a->rows:a->cols,kb=d->transB?b->cols:b->rows,n=d->transB?b->rows:b->cols;
  return m==c->rows&&n==c->cols&&ka==kb&&a->batches==b->batches&&a->batches==c->batches&&a->type==b->type;}
/* What is added may stand in lines and batches of its own. */
static int alike(const Layout*c,const Layout*o){return c->type==o->type&&c->rows==o->rows&&c->cols==o->cols&&c->batches==o->batches;}
static int same(const Layout*c,const Layout*o){return alike(c,o)&&c->ld==o->ld&&c->stride==o->stride;}
int cublasLtMatmulAlgoGetHeuristic(void*h,Desc*d,Layout*a,Layout*b,Layout*c,Layout*o,Pref*p,int want,Result*r,int*got){
  if(h!=(void*)0x1717||!fits(d,a,b,o)||!alike(c,o)||p->scheme!=2||p->workspace<4096) return 7;
  for(int i=0;i<4;i++) if(p->align[i]<1||p->align[i]>256||(p->align[i]&(p->align[i]-1))) return 7;
  *got=0; if(c->rows==11||c->cols==11) return 15;
  /* The first result is one that does not work. */
  memset(r,0,want*sizeof(Result)); r[0].state=15; r[1].algo[0]=42; r[1].workspace=1024; *got=2; return 0;}
typedef struct {Desc d;Layout a,b,c,o;const char*x,*y,*w;char*z;double alpha,beta;} Work;
static double half(unsigned h){unsigned e=h>>10&31,f=h&1023;double v=e?(1+f/1024.0):f/1024.0;int p=(e?(int)e:1)-15;for(;p>0;p--)v*=2;for(;p<0;p++)v/=2;return h>>15?-v:v;}
static double get(u32 t,const char*p,i64 i){u32 w;float f;switch(t){case 0:return ((float*)p)[i];case 1:return ((double*)p)[i];case 2:return half(((uint16_t*)p)[i]);default:w=(u32)((uint16_t*)p)[i]<<16;memcpy(&f,&w,4);return f;}}
static void put(u32 t,char*p,i64 i,double v){u32 w;float f=v;switch(t){case 0:((float*)p)[i]=f;break;case 1:((double*)p)[i]=v;break;case 14:memcpy(&w,&f,4);((uint16_t*)p)[i]=(w+0x7fff+(w>>16&1))>>16;break;}}
static void compute(const void*data){ const Work*w=data; const Layout*a=&w->a,*b=&w->b,*c=&w->o,*e=&w->c; u64 k=w->d.transA?a->rows:a->cols; products++;
  for(int t=0;t<c->batches;t++) for(u64 i=0;i<c->rows;i++) for(u64 j=0;j<c->cols;j++){ double s=0;
    for(u64 l=0;l<k;l++) s+=get(a->type,w->x,t*a->stride+(w->d.transA?i*a->ld+l:l*a->ld+i))*get(b->type,w->y,t*b->stride+(w->d.transB?l*b->ld+j:j*b->ld+l));
    s*=w->alpha; if(w->beta!=0) s+=w->beta*get(e->type,w->w,t*e->stride+j*e->ld+i);
    put(c->type,w->z,t*c->stride+j*c->ld+i,s);}}
int cublasLtMatmul(void*h,Desc*d,const void*alpha,const void*x,Layout*a,const void*y,Layout*b,const void*beta,const void*cc,Layout*c,void*z,Layout*o,const u64*algo,void*ws,size_t bytes,void*stream){
  if(h!=(void*)0x1717||!fits(d,a,b,o)||!alike(c,o)||(cc==z&&!same(c,o))||algo[0]!=42||!ws||bytes!=1024) return 7;
  double al=d->scale==1?*(double*)alpha:*(float*)alpha,be=d->scale==1?*(double*)beta:*(float*)beta; if(be==0&&cc!=z) return 7;
  Work w={*d,*a,*b,*c,*o,x,y,cc,z,al,be}; return stubPut(compute,&w,sizeof w,stream)?14:0;}
